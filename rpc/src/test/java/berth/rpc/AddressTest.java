package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AddressTest {
  private static final int DEFAULT_PORT = 18812;

  @ParameterizedTest
  @CsvSource({
    "gpu01:7, gpu01, 7",
    "gpu01, gpu01, 18812",
    "gpu_01.example.org:65535, gpu_01.example.org, 65535",
    "10.0.0.7:7, 10.0.0.7, 7",
    "'  gpu01:7 ', gpu01, 7",
    "[::1]:7, ::1, 7",
    "[::1], ::1, 18812",
    "::1, ::1, 18812",
    "[fe80::1%eth0]:7, fe80::1%eth0, 7",
    "127.0.0.1:0, 127.0.0.1, 0",
  })
  void readsWhatPeopleWrite(String text, String host, int port) {
    assertThat(Address.parse(text, DEFAULT_PORT)).isEqualTo(new Address(host, port));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "gpu01:seven | 'gpu01:seven' is not HOST:PORT: 'seven' is not a number",
        "gpu01: | 'gpu01:' is not HOST:PORT: '' is not a number",
        "gpu01:65536 | port 65536 is not between 0 and 65535",
        "gpu01:-1 | port -1 is not between 0 and 65535",
        ":7 | '' is not a host name",
        "gpu 01:7 | 'gpu 01' is not a host name",
        "gpu01/gpus | 'gpu01/gpus' is not a host name",
        "http://gpu01:7 | 'http://gpu01:7' is not a host name",
        "[::1 | '[:' is not a host name",
      })
  void refusesWhatIsNoAddressAndSaysWhy(String text, String why) {
    assertThatThrownBy(() -> Address.parse(text, DEFAULT_PORT))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessage(why);
  }

  @ParameterizedTest
  @CsvSource({"gpu01:7", "10.0.0.7:7", "[::1]:7"})
  void isWrittenAsItIsRead(String text) {
    assertThat(Address.parse(text, DEFAULT_PORT)).hasToString(text);
  }

  @ParameterizedTest
  @CsvSource({
    "127.0.0.1, true",
    "127.8.8.8, true",
    "::1, true",
    "localhost, true",
    "0.0.0.0, false",
    "::, false",
    "10.0.0.7, false",
  })
  void knowsWhetherOnlyThisMachineReachesIt(String host, boolean loopback) {
    assertThat(new Address(host, 7).isLoopback()).isEqualTo(loopback);
  }

  @Test
  void saysWhichHostHasNoAddress() {
    assertThatThrownBy(() -> new Address("gpu01.invalid", 7).resolve())
        .hasMessage("host 'gpu01.invalid' has no address");
  }
}
