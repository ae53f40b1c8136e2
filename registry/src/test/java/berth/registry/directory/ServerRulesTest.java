package berth.registry.directory;

import static berth.registry.directory.SampleServers.registration;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.AwaitTurnRequest;
import berth.v1.GpuInfo;
import berth.v1.GpuStatus;
import berth.v1.HeartbeatRequest;
import berth.v1.Owner;
import berth.v1.RegisterRequest;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class ServerRulesTest {
  private static final String FORGED = "x\n2026-01-01T00:00:00.000Z INFO gpu99 is here";

  static Stream<Consumer<ServerInfo.Builder>> forgeries() {
    return Stream.of(
        info -> info.setName("gpu01\u202e"),
        info -> info.setAddress("h1\n:1"),
        info -> info.setVersion(FORGED),
        info -> info.setRuntime(FORGED),
        info -> info.putLabels("room", "\u009b2J"),
        info -> info.putLabels("ro\u2028om", "b12"),
        info -> info.addServices(Service.newBuilder().setName(FORGED)),
        info -> info.addServices(Service.newBuilder().setName("a").addAliases(FORGED)),
        info -> info.addServices(Service.newBuilder().setName("a").setImage(FORGED)),
        info -> info.addServices(Service.newBuilder().setName("a").setDescription(FORGED)),
        info -> info.addServices(Service.newBuilder().setName("a").addInterpreter(FORGED)),
        info -> info.addGpus(GpuInfo.newBuilder().setModel(FORGED)),
        info -> info.addGpus(GpuInfo.newBuilder().setUuid(FORGED)));
  }

  @ParameterizedTest
  @MethodSource("forgeries")
  void hiddenCharactersInWhatAServerSaysOfItselfAreRefused(Consumer<ServerInfo.Builder> forge) {
    RegisterRequest.Builder request = registration("gpu01", "h1:1", "a", 1).toBuilder();
    ServerRules.check(request.build());
    forge.accept(request.getInfoBuilder());
    refused(() -> ServerRules.check(request.build()));
    refused(
        () ->
            ServerRules.check(
                HeartbeatRequest.newBuilder()
                    .setName(request.getInfo().getName())
                    .setInstance("a")
                    .setInfo(request.getInfo())
                    .build()));
  }

  @Test
  void hiddenCharactersInIdsAreRefused() {
    RegisterRequest good = registration("gpu01", "h1:1", "a", 1);
    refused(() -> ServerRules.check(good.toBuilder().setInstance("a\nb").build()));
    refused(
        () ->
            ServerRules.check(
                good.toBuilder().setStatus(ServerStatus.newBuilder().addRunIds("r\033")).build()));
  }

  @Test
  void hiddenCharactersOfThoseInLineAreRefused() {
    AwaitTurnRequest good = AwaitTurnRequest.newBuilder().addServers("gpu01").build();
    ServerRules.check(good);
    refused(() -> ServerRules.check(good.toBuilder().setPurpose(FORGED).build()));
    refused(() -> ServerRules.check(good.toBuilder().addServers("a\nb").build()));
    refused(
        () ->
            ServerRules.check(
                good.toBuilder().setOwner(Owner.newBuilder().setUser(FORGED)).build()));
  }

  @Test
  void whatAServerSaysOfItsTroubleIsCleaned() {
    ServerStatus status =
        ServerStatus.newBuilder()
            .setProblem("the engine said:\nno")
            .addGpus(GpuStatus.newBuilder().setReason("lost\033"))
            .build();
    RegisterRequest request =
        registration("gpu01", "h1:1", "a", 1).toBuilder().setStatus(status).build();
    ServerRules.check(request);
    ServerStatus cleaned = ServerRules.cleaned(request).getStatus();
    assertThat(cleaned.getProblem()).isEqualTo("the engine said:?no");
    assertThat(cleaned.getGpus(0).getReason()).isEqualTo("lost?");
    HeartbeatRequest beat = HeartbeatRequest.newBuilder().setStatus(status).build();
    assertThat(ServerRules.cleaned(beat).getStatus()).isEqualTo(cleaned);
  }

  private static void refused(Runnable check) {
    assertThatThrownBy(check::run)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .satisfies(e -> assertThat(PlainText.clean(e.getMessage())).isEqualTo(e.getMessage()));
  }
}
