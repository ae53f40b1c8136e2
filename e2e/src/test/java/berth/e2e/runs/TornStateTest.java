package berth.e2e.runs;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.call.ReservationClient;
import berth.client.call.RunClient;
import berth.e2e.fixture.Asked;
import berth.e2e.fixture.RunServer;
import berth.rpc.Address;
import berth.v1.GpuRequest;
import berth.v1.Reservation;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import berth.v1.WaitTime;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A real berthd on a state folder in which one file is not as it was written. The stores' own tests
 * cut every file at many lengths; this one shows that the whole daemon starts.
 */
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class TornStateTest {
  @TempDir private Path folder;
  private RunServer server;

  @Test
  void aDamagedFileIsNamedAndConcernsNothingElse() throws Exception {
    server = start();
    Map<String, String> before;
    List<Path> files;
    Path whole = folder.resolve("whole");
    try {
      for (int i = 0; i < 2; i++) {
        assertThat(server.run(command("echo over " + i)).exited().getExitCode()).isZero();
      }
      // Its keeper goes on without berthd, so those who wait do so for ever.
      Reservation held = server.reserve(Asked.reservation(3600, 0));
      for (int i = 0; i < 2; i++) {
        server.run(waiting("echo waits " + i)).runId();
      }
      before = known(server);
      assertThat(before).hasSize(5).containsKey(held.getReservationId());
      server.kill();
      files = files(server.state());
      copy(server.state(), whole);

      for (int i = 0; i < files.size(); i++) {
        Path file = files.get(i);
        damage(server.state().resolve(file), i);
        server.start();
        String owner = ownerOf(file);
        Map<String, String> after = known(server);
        for (Map.Entry<String, String> entry : before.entrySet()) {
          if (!entry.getKey().equals(owner)) {
            assertThat(after).as("after %s was damaged", file).contains(entry);
          }
        }
        // What a run is made of is read when it is started, and named then.
        if (!file.endsWith("content")) {
          assertThat(server.daemon().log()).as("names %s", file).contains(file.toString());
        }
        server.kill();
        delete(server.state());
        copy(whole, server.state());
      }
    } finally {
      if (!server.daemon().alive()) {
        server.start();
      }
      server.held().forEach(id -> server.reservations().release(id, RunServer.TIMEOUT));
      server.assertNothingLeft();
      server.close();
    }
  }

  private RunServer start() {
    return new RunServer(
        folder, "--runtime", "process", "--allow-root", "--simulate-gpus", "1", "--name", "torn");
  }

  private static RunCodeRequest.Builder command(String script) {
    return Asked.command("sh", "-c", script);
  }

  private static RunCodeRequest.Builder waiting(String script) {
    return command(script)
        .setDetached(true)
        .setGpus(GpuRequest.newBuilder().setCount(1))
        .setWait(WaitTime.newBuilder().setForever(true));
  }

  /** What a server knows, by id: what it is, and how it stands. */
  private static Map<String, String> known(RunServer server) {
    Map<String, String> known = new TreeMap<>();
    Address address = Address.parse(server.daemon().address(), 0);
    try (RunClient runs = RunClient.of(address);
        ReservationClient reservations = ReservationClient.of(address)) {
      for (Run run : runs.listRuns(RunServer.TIMEOUT).getRunsList()) {
        known.put(
            run.getRunId(),
            run.getState()
                + (run.getState() == RunState.RUN_STATE_ENDED
                    ? " " + run.getExited().getReason()
                    : ""));
      }
      for (Reservation held :
          reservations.listReservations(RunServer.TIMEOUT).getReservationsList()) {
        known.put(held.getReservationId(), held.getGpusList().toString());
      }
    }
    return known;
  }

  /** The run or reservation that a file is of. */
  private static String ownerOf(Path file) {
    return file.startsWith("runs")
        ? file.getName(1).toString()
        : file.getFileName().toString().replaceAll("\\..*", "");
  }

  // One kind for each file, in turn; each run of this test takes the same.
  private static void damage(Path file, int kind) throws IOException {
    byte[] content = Files.readAllBytes(file);
    switch (kind % 3) {
      case 0 -> Files.write(file, new byte[0]);
      case 1 -> Files.write(file, Arrays.copyOf(content, content.length / 2));
      default -> {
        new Random(kind).nextBytes(content);
        Files.write(file, content);
      }
    }
  }

  /** The records below a folder, as paths in it: not the programs' own files, nor locks. */
  private static List<Path> files(Path state) throws IOException {
    List<Path> found = new ArrayList<>();
    try (var all = Files.walk(state)) {
      for (Path file : all.sorted().toList()) {
        Path inside = state.relativize(file);
        if (Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
            && Files.size(file) > 0
            && !inside.toString().matches("lock|runs/[^/]*/(work|mark|spool)/.*")) {
          found.add(inside);
        }
      }
    }
    return found;
  }

  private static void copy(Path from, Path to) throws Exception {
    assertThat(new ProcessBuilder("cp", "-a", from.toString(), to.toString()).start().waitFor())
        .isZero();
  }

  private static void delete(Path path) throws Exception {
    assertThat(new ProcessBuilder("rm", "-r", path.toString()).start().waitFor()).isZero();
  }
}
