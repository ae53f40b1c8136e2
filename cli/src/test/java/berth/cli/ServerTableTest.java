package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fake.FakeRegistry;
import berth.rpc.Address;
import berth.v1.Server;
import java.util.List;
import org.junit.jupiter.api.Test;

class ServerTableTest {
  private final Server.Builder server =
      FakeRegistry.server("gpu01", new Address("127.0.0.1", 1), 1, 1).toBuilder();

  @Test
  void showsHowMuchMemoryOfAMachineIsFreeIfThatIsKnown() {
    server.getInfoBuilder().setMemoryBytes(64L << 30);
    assertThat(row()).contains(" A100 64 GiB 8 ");

    server.getStatusBuilder().setFreeMemoryBytes((48L << 30) - 1);
    assertThat(row()).contains(" A100 47/64 GiB free 8 ");
  }

  private String row() {
    return ServerTable.servers(List.of(server.build()))
        .lines()
        .skip(1)
        .findFirst()
        .get()
        .replaceAll(" +", " ");
  }
}
