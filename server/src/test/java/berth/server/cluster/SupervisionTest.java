package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.state.DurableFiles;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.supervision.SealedMessage;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Supervisors that are real processes, with a clock that stands still until it is set. */
class SupervisionTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final List<Address> REGISTRIES = List.of(new Address("reg1", 18811));

  @TempDir private Path state;
  private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
  private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - 1);
  private final DurableFiles files = new DurableFiles(new Vitals());
  private ClusterFolder folder;
  private StoredCluster cluster;

  @BeforeEach
  void accept() {
    folder = new ClusterFolder(state.resolve("c-0123456789"), files);
    folder.create(OptionalInt.empty());
    ClusterStatus submitted = ClusterStatus.newBuilder().setName("line").build();
    folder.submit(submitted, "", SupervisorRecord.none(REGISTRIES));
    cluster =
        new StoredCluster("gpu01", folder, submitted, "", SupervisorRecord.none(REGISTRIES), timer);
  }

  @AfterEach
  void close() {
    timer.shutdownNow();
    files.close();
    cluster
        .supervisor()
        .process()
        .filter(SupervisorProcess::alive)
        .ifPresent(last -> Machine.kill(last.pid()));
  }

  @Test
  void thePausesGrowAndBeginAnewWhenASupervisorHasLivedForAMinute() throws IOException {
    Supervision supervision = supervisionBy("exit 1");
    List<Integer> pauses = new ArrayList<>();
    supervision.look();
    for (int i = 1; i <= 7; i++) {
      awaitEnd();
      pauses.add(secondsUntilStart(supervision, i));
    }

    assertThat(pauses).containsExactly(1, 2, 4, 8, 16, 30, 30);

    awaitEnd();
    pass(Duration.ofSeconds(59));
    assertThat(secondsUntilStart(supervision, 8)).isEqualTo(30);
    awaitEnd();
    pass(Duration.ofSeconds(60));
    assertThat(secondsUntilStart(supervision, 9)).isEqualTo(1);
  }

  @Test
  void oneThatDoesNotFailQuicklyIsStartedAgainForEver() {
    Supervision supervision = supervisionBy("exit 1");
    supervision.look();
    for (int i = 1; i <= 45; i++) {
      awaitEnd();
      // Every twentieth lives for long enough.
      pass(i % 20 == 0 ? Duration.ofSeconds(10) : Duration.ofSeconds(9));
      secondsUntilStart(supervision, i);
    }

    assertThat(cluster.ended()).isFalse();
    assertThat(cluster.status().getSupervisorRestarts()).isEqualTo(45);
  }

  @Test
  void theEndThatASupervisorHasNotedIsTheEnd() throws IOException {
    Supervision supervision = supervisionBy("mv \"$1/state/prepared\" \"$1/state/status\"");
    Files.write(
        folder.state().resolve("prepared"),
        SealedMessage.seal(
            ClusterStatus.newBuilder().setPhase(ClusterPhase.CLUSTER_PHASE_ENDED).build()));
    supervision.look();
    awaitEnd();

    supervision.look();
    pass(Duration.ofHours(1));
    supervision.look();

    assertThat(cluster.supervisor().starts()).isEqualTo(1);
    assertThat(cluster.ended()).isTrue();
  }

  @Test
  void whatCannotBeStartedIsGivenUpToo() {
    Supervision supervision =
        new Supervision(
            cluster,
            SupervisorSandbox.ofThisUser(),
            List.of("/no/such/command"),
            () -> REGISTRIES,
            Clusters.Timing.usual(),
            nanos::get);
    supervision.look();
    for (int i = 1; i < 20; i++) {
      awaitEnd();
      secondsUntilStart(supervision, i);
    }
    awaitEnd();
    assertThat(cluster.ended()).isFalse();

    supervision.look();

    assertThat(cluster.ended()).isTrue();
    assertThat(cluster.status().getOutcome()).isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_FAILED);
    assertThat(cluster.status().getWhy()).contains("/no/such/command");
  }

  @Test
  void whatIsInTheWayOfAStartIsTheReason() throws IOException {
    Files.createDirectory(folder.log());
    Supervision supervision = supervisionBy("exit 1");

    for (int i = 0; i < 21; i++) {
      supervision.look();
      pass(Duration.ofSeconds(30));
    }

    assertThat(cluster.ended()).isTrue();
    assertThat(cluster.supervisor().starts()).isZero();
    assertThat(cluster.status().getWhy())
        .startsWith("its supervisor failed 20 times in a row; ")
        .endsWith(folder.log() + " (Is a directory)");
  }

  @Test
  void aSupervisorThatNobodyHasARecordOfDoesNotBegin() {
    Path begun = state.resolve("begun");
    List<SupervisorProcess> started = new ArrayList<>();

    assertThatThrownBy(
            () ->
                SupervisorProcess.start(
                    List.of("/bin/sh", "-c", ": >" + begun),
                    Map.of("PATH", "/usr/bin:/bin"),
                    folder.log(),
                    process -> {
                      started.add(process);
                      throw new BerthException(Reason.UNAVAILABLE, "the disk is full");
                    }))
        .hasMessage("the disk is full");

    await().atMost(PATIENCE).until(() -> !started.get(0).alive());
    assertThat(begun).doesNotExist();
  }

  @Test
  void aLogThatGrowsTooLargeIsPutAside() throws IOException {
    Files.writeString(folder.log(), "x".repeat(1 << 20));
    folder.trimLog();
    assertThat(folder.log()).hasSize(1 << 20);

    Files.writeString(folder.log(), "y".repeat((1 << 20) + 1));
    folder.trimLog();

    assertThat(folder.log()).isEmptyFile();
    assertThat(folder.path().resolve("log.1")).hasSize((1 << 20) + 1);
    Files.writeString(folder.log(), "first\n\n  läst\n \n");
    assertThat(folder.lastLineOfLog()).contains("läst");
  }

  private Supervision supervisionBy(String script) {
    return new Supervision(
        cluster,
        SupervisorSandbox.ofThisUser(),
        List.of("/bin/sh", "-c", script, "sh"),
        () -> REGISTRIES,
        Clusters.Timing.usual(),
        nanos::get);
  }

  private void awaitEnd() {
    await()
        .pollInterval(Duration.ofMillis(5))
        .atMost(PATIENCE)
        .until(() -> !cluster.supervisor().alive());
  }

  private void pass(Duration time) {
    nanos.addAndGet(time.toNanos());
  }

  /** Notices that supervisor {@code number} has ended, and lets time pass until the next starts. */
  private int secondsUntilStart(Supervision supervision, int number) {
    supervision.look();
    int seconds = 0;
    while (cluster.supervisor().starts() == number) {
      assertThat(seconds).isLessThan(100);
      pass(Duration.ofSeconds(1).minusNanos(1));
      supervision.look();
      assertThat(cluster.supervisor().starts()).isEqualTo(number);
      pass(Duration.ofNanos(1));
      seconds++;
      supervision.look();
    }
    return seconds;
  }
}
