package berth.e2e.soak;

import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.Python;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.ListReservationsResponse;
import berth.v1.ListRunsResponse;
import berth.v1.RunState;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** What is left at the end of a soak, when everything has ended. */
final class SoakLeftovers {
  private static final Path CONTROL_GROUPS = Path.of("/sys/fs/cgroup");

  private final SoakWorld world;

  SoakLeftovers(SoakWorld world) {
    this.world = world;
  }

  /** What servers that run still have or hold; empty if nothing. */
  List<String> whileRunning() throws IOException {
    List<String> left = new ArrayList<>();
    for (ClusterStatus.Builder cluster : answers(ClusterStatus::newBuilder, "clusters", "--json")) {
      if (cluster.getPhase() != ClusterPhase.CLUSTER_PHASE_ENDED) {
        left.add("a cluster: " + cluster.getName() + ", " + cluster.getPhase());
      }
    }
    List<ListRunsResponse.Builder> runs =
        answers(ListRunsResponse::newBuilder, "runs", "--all", "--json");
    List<ListReservationsResponse.Builder> reservations =
        answers(ListReservationsResponse::newBuilder, "reservations", "--json");
    if (runs.size() != world.servers().size() || reservations.size() != world.servers().size()) {
      left.add("a server that does not answer");
    }
    for (ListRunsResponse.Builder server : runs) {
      server.getRunsList().stream()
          .filter(run -> run.getState() != RunState.RUN_STATE_ENDED)
          .forEach(run -> left.add("a run: " + run.getRunId() + " on " + server.getServer()));
    }
    for (ListReservationsResponse.Builder server : reservations) {
      server
          .getReservationsList()
          .forEach(held -> left.add("a reservation: " + held.getPurpose() + ", " + held));
      server.getWaitingList().forEach(waiting -> left.add("somebody who waits: " + waiting));
      server.getLockedByOthersList().forEach(lock -> left.add("a lock: " + lock));
    }
    Set<String> daemons =
        world.all().stream().map(server -> Long.toString(server.pid())).collect(Collectors.toSet());
    Leftovers.processesIn(world.folder()).stream()
        .filter(process -> !daemons.contains(process.substring(0, process.indexOf(' '))))
        .forEach(process -> left.add("a process: " + process));
    for (SoakServer server : world.servers()) {
      for (Path run : filesIn(server.runs())) {
        if (Files.exists(run.resolve("io"))) {
          left.add("the pipes of " + run);
        }
      }
    }
    left.addAll(controlGroups());
    return left;
  }

  /** What is there after all servers have ended. */
  List<String> afterwards() {
    List<String> left = new ArrayList<>();
    Leftovers.processesIn(world.folder()).forEach(process -> left.add("a process: " + process));
    for (SoakServer server : world.servers()) {
      List<String> check = Python.script("locks_are_free.py", server.locks());
      Installed.run(check.toArray(String[]::new))
          .out()
          .lines()
          .forEach(lock -> left.add("a lock on " + server.name() + ": " + lock));
    }
    return left;
  }

  private List<String> controlGroups() throws IOException {
    List<String> left = new ArrayList<>();
    for (SoakServer server : world.servers()) {
      for (Path run : filesIn(server.runs())) {
        controlGroups(run.getFileName().toString())
            .forEach(group -> left.add("a control group: " + group));
      }
    }
    return left;
  }

  /** Removes the empty control groups of a world whose servers cannot do that any more. */
  static void removeControlGroups(SoakWorld world) throws IOException {
    for (SoakServer server : world.servers()) {
      for (Path run : filesIn(server.runs())) {
        for (Path group : controlGroups(run.getFileName().toString())) {
          Files.deleteIfExists(group);
        }
      }
    }
  }

  // In one hierarchy, or in one for each controller.
  private static List<Path> controlGroups(String run) throws IOException {
    try (Stream<Path> hierarchies = Files.list(CONTROL_GROUPS)) {
      return Stream.concat(Stream.of(CONTROL_GROUPS), hierarchies)
          .map(hierarchy -> hierarchy.resolve("berth").resolve(run))
          .filter(Files::isDirectory)
          .toList();
    }
  }

  private static List<Path> filesIn(Path folder) throws IOException {
    List<Path> found = new ArrayList<>();
    if (Files.isDirectory(folder)) {
      try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
        files.forEach(found::add);
      }
    }
    return found;
  }

  /** What a command prints that prints a line of JSON for each answer. */
  private <T extends Message.Builder> List<T> answers(Supplier<T> message, String... words)
      throws IOException {
    List<T> answers = new ArrayList<>();
    for (String line : world.berth(words).out().lines().toList()) {
      T answer = message.get();
      JsonFormat.parser().merge(line, answer);
      answers.add(answer);
    }
    return answers;
  }
}
