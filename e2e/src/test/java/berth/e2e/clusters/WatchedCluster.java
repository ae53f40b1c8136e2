package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.ClusterStates;
import berth.e2e.fixture.Installed.Result;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionTimeoutException;

/**
 * A cluster that one of the machines supervises, as {@code berth cluster status} shows it. Any
 * thread may call.
 */
final class WatchedCluster implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofMinutes(3);

  private final ClusterMachines machines;
  private final String id;
  private final Process watch;
  private volatile ClusterStatus status = ClusterStatus.getDefaultInstance();

  private WatchedCluster(ClusterMachines machines, String id, Process watch) {
    this.machines = machines;
    this.id = id;
    this.watch = watch;
    Thread thread = new Thread(this::read, "watch-" + id);
    thread.setDaemon(true);
    thread.start();
  }

  /** Hands the cluster of a file over. */
  static WatchedCluster start(ClusterMachines machines, Path file) throws IOException {
    Result handedOver = machines.berth("cluster", "run", "--detach", file.toString());
    assertThat(handedOver.exitCode()).as(handedOver.err()).isZero();
    String id = handedOver.out().strip();
    return new WatchedCluster(
        machines, id, machines.start("cluster", "status", "--watch", "--json", id));
  }

  private void read() {
    try (BufferedReader lines = watch.inputReader()) {
      for (String line; (line = lines.readLine()) != null; ) {
        ClusterStatus.Builder next = ClusterStatus.newBuilder();
        JsonFormat.parser().merge(line, next);
        status = next.build();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  String id() {
    return id;
  }

  /** As it was when something of it changed last. */
  ClusterStatus status() {
    return status;
  }

  /** Returns the first state that is as it should be. */
  ClusterStatus await(Predicate<ClusterStatus> asItShould) {
    try {
      return Awaitility.await()
          .atMost(PATIENCE)
          .until(
              () -> {
                if (!watch.isAlive() && !ClusterStates.hasEnded(status)) {
                  String said = watch.errorReader().lines().collect(Collectors.joining("\n"));
                  throw new AssertionError("nobody watches " + id + " any more: " + said);
                }
                return status;
              },
              asItShould);
    } catch (ConditionTimeoutException e) {
      throw new AssertionError("still " + status, e);
    }
  }

  /** All starts of a task so far. */
  List<TaskAttempt> attempts(String task) {
    return attempts(status, task);
  }

  static List<TaskAttempt> attempts(ClusterStatus status, String task) {
    return status.getTasksList().stream()
        .filter(each -> ClusterStates.name(each).toString().equals(task))
        .map(TaskStatus::getAttemptsList)
        .findFirst()
        .orElse(List.of());
  }

  /** The machine whose {@code berthd} supervises it. */
  ClusterMachine supervisingMachine() {
    return machines.named(await(known -> !known.getServer().isEmpty()).getServer());
  }

  /** The process that supervises it at present. */
  ProcessHandle supervisor() throws IOException {
    Properties record = new Properties();
    Path folder = supervisingMachine().state().resolve("clusters").resolve(id);
    try (Reader reader = Files.newBufferedReader(folder.resolve("supervisor"))) {
      record.load(reader);
    }
    return ProcessHandle.of(Long.parseLong(record.getProperty("pid"))).orElseThrow();
  }

  /** Ends what a failed test has left of it. */
  @Override
  public void close() {
    watch.destroyForcibly();
    if (!ClusterStates.hasEnded(status)) {
      machines.berth("cluster", "cancel", "--force", id);
    }
  }
}
