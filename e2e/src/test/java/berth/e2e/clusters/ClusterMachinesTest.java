package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed.Result;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** The machines on which clusters are tested: that they are several, and that one sees all. */
@Tag("docker")
@ExtendWith(ClusterMachines.Shared.class)
class ClusterMachinesTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private static final String LISTEN =
      """
      import os, socket
      with socket.create_server(("", int(os.environ["BERTH_PORTS"]))) as server:
          print(server.getsockname()[1], flush=True)
          connection, peer = server.accept()
          print(connection.makefile().read(), "from", peer[0])
      """;

  private static final String CONNECT =
      """
      import os, socket, sys
      with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
          connection.sendall(os.environ["BERTH_SERVER"].encode())
      """;

  @TempDir private Path folder;
  private static ClusterMachines machines;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(ClusterMachines shared) {
    machines = shared;
  }

  @AfterEach
  void leavesNothing() {
    machines.assertNothingLeft();
  }

  @Test
  void theRegistryKnowsThreeServersAtThreeAddresses() {
    Result result = machines.berth("servers");

    assertThat(result.exitCode()).as(result.err()).isZero();
    assertThat(result.out().lines().skip(1).map(line -> line.replaceAll(" +", " ")))
        .hasSize(3)
        .anyMatch(line -> line.startsWith("gpu01 10.77.0.1:18812 2/2 free"))
        .anyMatch(line -> line.startsWith("gpu02 10.77.0.2:18812 2/2 free"))
        .anyMatch(line -> line.startsWith("gpu03 10.77.0.3:18812 2/2 free"));
  }

  @Test
  void aContainerIsReachedAtTheReservedPortOfItsMachineFromAContainerOfAnother() throws Exception {
    Path listen = Files.writeString(folder.resolve("listen.py"), LISTEN);
    Path connect = Files.writeString(folder.resolve("connect.py"), CONNECT);
    Process first =
        machines.start(
            "run",
            "--server",
            "gpu01",
            "--network",
            "host",
            "--ports",
            "1",
            "--gpus",
            "1",
            "--service",
            "pytorch",
            "-q",
            listen.toString());
    String port = first.inputReader().readLine();

    Result second =
        machines.berth(
            "run",
            "--server",
            "gpu02",
            "--network",
            "host",
            "--service",
            "tensorflow",
            connect.toString(),
            machines.machine(1).host(),
            port);

    assertThat(second.exitCode()).as(second.err()).isZero();
    assertThat(first.inputReader().readLine()).isEqualTo("gpu02 from 10.77.0.2");
    assertThat(first.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    assertThat(first.exitValue()).isZero();
  }

  @Test
  void aContainerOnTheNetworkOfTheHostSeesThatOfItsMachine() {
    for (ClusterMachine machine : machines.machines()) {
      Result result =
          machines.berth(
              "run",
              "--server",
              machine.address(),
              "--network",
              "host",
              "--image",
              Engine.IMAGE,
              "--",
              "ip",
              "-o",
              "-4",
              "address",
              "show",
              "eth0");

      assertThat(result.exitCode()).as(result.err()).isZero();
      assertThat(result.out()).contains(" inet " + machine.host() + "/24 ");
    }
  }

  @Test
  void theRefereeSeesTwoContainersWithTheSameGpu() throws IOException {
    Engine engine = machines.machine(2).engine();
    try (GpuReferee referee = new GpuReferee(List.of(machines.machine(2)))) {
      for (String gpus : List.of("0", "1", "0,1")) {
        engine.docker(
            "run",
            "--detach",
            "--name",
            "gpus-" + gpus.replace(",", "-"),
            "--label",
            "berth.gpus=" + gpus,
            Engine.IMAGE,
            "sleep",
            "1000");
      }
      engine.docker("rm", "--force", "gpus-0", "gpus-1", "gpus-0-1");

      assertThat(referee.overlaps())
          .satisfiesExactlyInAnyOrder(
              first -> assertThat(first).startsWith("GPU 0 of gpu02 is in "),
              second -> assertThat(second).startsWith("GPU 1 of gpu02 is in "));
      assertThat(referee.starts()).isEqualTo(3);
    }
  }
}
