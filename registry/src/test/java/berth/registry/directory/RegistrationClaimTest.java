package berth.registry.directory;

import static berth.registry.directory.SampleServers.registration;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.RegisterRequest;
import berth.v1.Server;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RegistrationClaimTest {
  private static final long NOW = 1_800_000_000_000L;
  private static final long DAY = Duration.ofDays(1).toMillis();

  @Test
  void aNumberThatNoRegistryCanHaveGivenIsRefused() {
    assertThatThrownBy(() -> decide("a", 1L << 50, Optional.empty()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessage("unknown generation 1125899906842624");
    assertThatThrownBy(() -> decide("a", NOW + DAY + 1, Optional.empty()))
        .isInstanceOf(BerthException.class);
  }

  @Test
  void registriesMayDifferByADay() {
    assertThat(decide("a", NOW + DAY, Optional.empty()).generation()).isEqualTo(NOW + DAY);
  }

  @Test
  void whatTheRegistryItselfHasGivenIsBelievedHoweverHighItIs() {
    // Many first registrations in one millisecond, or a registry whose clock is wrong.
    Server known = server("a", NOW + 2 * DAY);
    assertThat(decide("a", NOW + 2 * DAY, Optional.of(known)).generation())
        .isEqualTo(NOW + 2 * DAY);
    assertThat(decide("b", 0, Optional.of(known)).generation()).isEqualTo(NOW + 2 * DAY + 1);
    assertThatThrownBy(() -> decide("b", NOW + 2 * DAY + 1, Optional.of(known)))
        .isInstanceOf(BerthException.class);
  }

  private static RegistrationClaim decide(
      String instance, long generation, Optional<Server> known) {
    return RegistrationClaim.decide(request(instance, generation), known, Optional.empty(), NOW);
  }

  private static RegisterRequest request(String instance, long generation) {
    return registration("gpu01", "h1:1", instance, 1).toBuilder().setGeneration(generation).build();
  }

  private static Server server(String instance, long generation) {
    return Server.newBuilder()
        .setInfo(request(instance, generation).getInfo())
        .setInstance(instance)
        .setGeneration(generation)
        .build();
  }
}
