package berth.registry.directory;

import static org.assertj.core.api.Assertions.assertThat;

import berth.v1.Server;
import io.etcd.jetcd.ByteSequence;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class EtcdKeysTest {
  private final EtcdKeys keys = new EtcdKeys("/berth");
  private final Server server =
      SampleServers.listed(
          SampleServers.info("gpu1", "h1:1", 2, "A100", 1), SampleServers.status(2, 1));

  @Test
  void aServerIsReadAtItsOwnPlace() {
    assertThat(read("gpu1", server)).contains(server);
  }

  @Test
  void aServerAtThePlaceOfAnotherIsNone() {
    assertThat(read("gpu2", server)).isEmpty();
  }

  @Test
  void whatCouldNotHaveRegisteredIsNoServer() {
    Server.Builder elsewhere = server.toBuilder();
    elsewhere.getInfoBuilder().setAddress("nowhere at all");
    assertThat(read("gpu1", elsewhere.build())).isEmpty();

    Server.Builder forged = server.toBuilder();
    forged.getInfoBuilder().setVersion("1\u001b[2J");
    assertThat(read("gpu1", forged.build())).isEmpty();

    assertThat(read("gpu1", Server.getDefaultInstance())).isEmpty();
  }

  @Test
  void whatIsNoMessageIsNoServer() {
    ByteSequence garbage = ByteSequence.from("garbage", StandardCharsets.UTF_8);
    assertThat(keys.server(keys.server("gpu1"), garbage)).isEmpty();
  }

  private Optional<Server> read(String name, Server value) {
    return keys.server(keys.server(name), ByteSequence.from(value.toByteString()));
  }
}
