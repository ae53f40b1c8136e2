package berth.server.presence;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Address;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class AdvertisedAddressTest {
  private static final Address HERE = new Address("127.0.0.1", 18811);
  // Of a network for examples; nothing is sent there.
  private static final Address ELSEWHERE = new Address("192.0.2.7", 18811);

  @Test
  void whatTheAdministratorSaysWins() {
    assertThat(advertised("203.0.113.5:7", "0.0.0.0:18812").towards(ELSEWHERE))
        .hasToString("203.0.113.5:7");
    assertThat(advertised("203.0.113.5", "0.0.0.0:18812").towards(ELSEWHERE))
        .hasToString("203.0.113.5:18812");
  }

  @Test
  void anAddressToListenOnIsTheOneToBeFoundAt() {
    assertThat(advertised("", "203.0.113.9:18812").towards(ELSEWHERE))
        .hasToString("203.0.113.9:18812");
    assertThat(advertised("", "127.0.0.1:18812").towards(HERE)).hasToString("127.0.0.1:18812");
  }

  @Test
  void loopbackIsRefusedForARegistryElsewhere() {
    assertThatThrownBy(() -> advertised("", "127.0.0.1:18812").towards(ELSEWHERE))
        .hasMessage(
            "clients of the registry at 192.0.2.7:18811 cannot reach this server at"
                + " 127.0.0.1:18812: listen beyond loopback (--listen), or set --advertise"
                + " HOST[:PORT]");
    assertThatThrownBy(() -> advertised("localhost", "0.0.0.0:18812").towards(ELSEWHERE))
        .hasMessageContaining("localhost:18812");
  }

  @Test
  void whoListensEverywhereIsFoundWhereTheKernelSendsFrom() {
    Address found = advertised("", "0.0.0.0:18812").towards(HERE);

    assertThat(found.port()).isEqualTo(18812);
    assertThat(found.host()).isNotEqualTo("0.0.0.0");
    assertThatThrownBy(() -> advertised("0.0.0.0", "0.0.0.0:18812").towards(ELSEWHERE))
        .hasMessageContaining("cannot reach this server at 0.0.0.0:18812");
  }

  private static AdvertisedAddress advertised(String explicit, String listening) {
    return new AdvertisedAddress(
        Optional.of(explicit).filter(text -> !text.isEmpty()).map(text -> Address.parse(text, 0)),
        Address.parse(listening, 0));
  }
}
