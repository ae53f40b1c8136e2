package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.client.spec.Warning;
import berth.fake.FakeRegistry;
import berth.fake.FakeServer;
import berth.v1.ClusterNote;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.ExitReason;
import berth.v1.RunCodeRequest;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.io.IOException;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What becomes of clusters whose tasks end when they should not. */
@Timeout(60)
class ClusterRestartTest {
  private static final long PATIENCE_SECONDS = 30;
  private static final ExitReason FINISHED = ExitReason.EXIT_REASON_FINISHED;

  private final FakeGroup group = new FakeGroup().givingTurns();
  private final List<ClusterEvent> events = new CopyOnWriteArrayList<>();
  private final FakeServer a = group.server("a", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
  private final FakeServer b = group.server("b", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
  private ClusterPolicy policy = policy(50, false, SuccessRule.ALL_WORKERS, Cleaning.RUNNING);
  private volatile ClusterStatus saved;

  private final CountDownLatch over = new CountDownLatch(1);

  @AfterEach
  void close() {
    over.countDown();
    group.close();
  }

  private static ClusterPolicy policy(
      int maxRestarts, boolean wholeRestarts, SuccessRule success, Cleaning cleaning) {
    return new ClusterPolicy(
        maxRestarts,
        wholeRestarts,
        Duration.ofMillis(1),
        success,
        cleaning,
        Optional.empty(),
        Optional.empty(),
        0,
        "");
  }

  /** One worker on each of two servers. */
  private ClusterRequest.Builder workers(RestartPolicy restart) {
    return ClusterRequest.named("test")
        .all(task -> task.command("true"))
        .task("worker", 2, worker -> worker.gpus(1))
        .restart(restart)
        .policy(policy);
  }

  private Cluster start(ClusterRequest.Builder request) {
    return group.start(request, events::add);
  }

  private static ClusterResult result(Cluster cluster) throws Exception {
    return cluster.ended().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  private static void started(Cluster cluster) throws Exception {
    cluster.started().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
  }

  /** Ends a task as soon as it runs. */
  private static void exit(FakeServer server, String task, int exitCode) {
    exit(server, task, FINISHED, exitCode);
  }

  private static void exit(FakeServer server, String task, ExitReason reason, int exitCode) {
    await().until(() -> server.exit(task, reason, exitCode));
  }

  private static String variable(RunCodeRequest run, String name) {
    return run.getEnvMap().get(name);
  }

  @Test
  void aTaskThatFailsStartsAgainAtTheSameAddressWhileTheOthersGoOn() throws Exception {
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", 1);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).isEqualTo(Outcome.SUCCEEDED);
      assertThat(result.tasks()).extracting(TaskResult::attempt).containsExactly(2, 1);
    }
    assertThat(a.launched).hasSize(2);
    assertThat(b.launched).hasSize(1);
    assertThat(a.launched)
        .extracting(run -> variable(run, "RESTART_COUNT"))
        .containsExactly("0", "1");
    assertThat(variable(a.launched.get(1), "TF_CONFIG"))
        .isEqualTo(variable(a.launched.get(0), "TF_CONFIG"));
    assertThat(a.launched.get(1).getReservationId())
        .isEqualTo(a.launched.get(0).getReservationId());
    assertThat(a.asked).hasSize(1);
    assertThat(events)
        .contains(
            new ClusterEvent.Restarting(
                new TaskName("worker", 0), 2, Duration.ofMillis(1), "exit code 1"));
    assertThat(a.held() + b.held()).isZero();
  }

  @ParameterizedTest
  @CsvSource({
    "NEVER, 1, false",
    "NEVER, 137, false",
    "ON_FAILURE, 1, true",
    "ON_FAILURE, 137, true",
    "EXIT_CODE, 1, false",
    "EXIT_CODE, 127, false",
    "EXIT_CODE, 128, true",
    "EXIT_CODE, 137, true",
    "ALWAYS, 1, true",
  })
  void thePolicySaysWhichExitCodesAreAReason(RestartPolicy policy, int exitCode, boolean again)
      throws Exception {
    ClusterRequest.Builder request =
        workers(RestartPolicy.ON_FAILURE)
            .task("ps", 1, ps -> ps.servers("a"))
            .restart("ps", policy);
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "ps:0", exitCode);
      if (again) {
        exit(a, "worker:0", 0);
        exit(b, "worker:1", 0);
      }

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).isEqualTo(again ? Outcome.SUCCEEDED : Outcome.FAILED);
      assertThat(result.exitCode()).isEqualTo(again ? 0 : exitCode);
    }
  }

  @Test
  void aGoodEndIsAReasonOnlyForAlways() throws Exception {
    ClusterRequest.Builder request =
        workers(RestartPolicy.ON_FAILURE)
            .task("ps", 1, ps -> ps.servers("a"))
            .restart("ps", RestartPolicy.ALWAYS);
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "ps:0", 0);
      exit(a, "ps:0", 0);
      await().until(() -> a.launched.size() == 4);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
  }

  @Test
  void outOfMemorySpendsTheBudgetOfATask() throws Exception {
    try (Cluster cluster = start(workers(RestartPolicy.EXIT_CODE).maxRestarts("worker", 2))) {
      started(cluster);
      for (int i = 0; i < 3; i++) {
        exit(a, "worker:0", ExitReason.EXIT_REASON_OUT_OF_MEMORY, 137);
      }

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).isEqualTo(Outcome.FAILED);
      assertThat(result.why()).startsWith("worker:0 on a ran out of memory");
      assertThat(result.exitCode()).isEqualTo(137);
    }
    assertThat(a.launched).hasSize(3);
    assertThat(notes()).contains("restart limit of the task reached: 2 times");
  }

  @Test
  void theBudgetOfTheClusterIsForAllTasksTogether() throws Exception {
    policy = policy(1, false, SuccessRule.ALL_WORKERS, Cleaning.RUNNING);
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", 1);
      await().until(() -> a.launched.size() == 2);
      exit(b, "worker:1", 1);

      assertThat(result(cluster).outcome()).isEqualTo(Outcome.FAILED);
    }
    assertThat(b.launched).hasSize(1);
  }

  @Test
  void pausesGrowUntilSomethingRanForLong() {
    ClusterPolicy usual = ClusterPolicy.USUAL;
    assertThat(List.of(usual.pause(1), usual.pause(2), usual.pause(3), usual.pause(30)))
        .containsExactly(
            Duration.ofSeconds(1),
            Duration.ofSeconds(2),
            Duration.ofSeconds(4),
            Duration.ofMinutes(5));
    assertThat(ClusterPolicy.ranLong(Duration.ofMinutes(9))).isFalse();
    assertThat(ClusterPolicy.ranLong(Duration.ofMinutes(10))).isTrue();
  }

  @Test
  void allStartAgainWhereThePolicySaysSo() throws Exception {
    policy = policy(50, true, SuccessRule.ALL_WORKERS, Cleaning.RUNNING);
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", 1);
      await().until(() -> a.launched.size() == 2 && b.launched.size() == 2);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
    // Everything was given back in between, so that nobody waits with a part in hand.
    assertThat(a.asked).hasSize(2);
    assertThat(b.asked).hasSize(2);
    assertThat(events)
        .contains(new ClusterEvent.Reforming("worker:0 on a ended with exit code 1"))
        .filteredOn(ClusterEvent.Formed.class::isInstance)
        .hasSize(2);
  }

  @Test
  void thatPipFailedIsSaid() throws Exception {
    ClusterRequest.Builder request =
        ClusterRequest.named("test")
            .all(task -> task.command("true").pip(List.of("nope")))
            .task("worker", 1, worker -> worker.gpus(1))
            .restart(RestartPolicy.NEVER)
            .policy(policy);
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "worker:0", 125);

      assertThat(result(cluster).why())
          .isEqualTo(
              "worker:0 on a ended with exit code 125: pip could not install its packages, see its"
                  + " output");
    }
  }

  @Test
  void whenAServerIsLostAllStartAgainElsewhere() throws Exception {
    FakeServer c = group.server("c", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      group.tellGone("a");
      a.lose();
      exit(c, "worker:1", 0);
      exit(b, "worker:0", 0);

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).as(result.why()).isEqualTo(Outcome.SUCCEEDED);
      assertThat(result.tasks()).extracting(TaskResult::server).containsExactly("b", "c");
    }
    assertThat(a.launched).hasSize(1);
    // Who stayed was told where the others are now.
    assertThat(b.launched).hasSize(2);
    assertThat(variable(b.launched.get(0), "TF_CONFIG"))
        .isNotEqualTo(variable(b.launched.get(1), "TF_CONFIG"));
    assertThat(a.held() + b.held() + c.held()).isZero();
  }

  @Test
  void aServerThatCannotStartTasksIsLeftForAnother() throws Exception {
    FakeServer c = group.server("c", FakeGroup.AT_ONCE, FakeGroup.AT_ONCE);
    a.unstartable = request -> true;
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      exit(b, "worker:0", 0);
      exit(c, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
    assertThat(a.launched).hasSize(2);
  }

  @Test
  void whyATaskCannotBeStartedYetIsTold() throws Exception {
    a.failingStarts.set(2);
    try (Cluster cluster = start(workers(RestartPolicy.NEVER))) {
      started(cluster);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
    assertThat(a.launched).hasSize(1);
    assertThat(notes()).containsOnlyOnce("worker:0 cannot be started yet: No space left on device");
  }

  @Test
  void whoIsCancelledBySomebodyStaysSo() throws Exception {
    try (Cluster cluster =
        start(workers(RestartPolicy.ALWAYS).restart("worker", RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", ExitReason.EXIT_REASON_CANCELLED, 143);

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).isEqualTo(Outcome.FAILED);
      assertThat(result.tasks()).extracting(TaskResult::end).contains(End.CANCELLED);
    }
    assertThat(a.launched).hasSize(1);
  }

  @Test
  void idleGpusEndTheClusterWithThatReason() throws Exception {
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", ExitReason.EXIT_REASON_IDLE, 143);

      assertThat(result(cluster).why()).startsWith("worker:0 on a was ended");
    }
  }

  @Test
  void theChiefAloneMayDecide() throws Exception {
    policy = policy(50, false, SuccessRule.CHIEF, Cleaning.RUNNING);
    try (Cluster cluster = start(workers(RestartPolicy.NEVER))) {
      started(cluster);
      exit(a, "worker:0", 0);

      ClusterResult result = result(cluster);

      assertThat(result.succeeded()).isTrue();
      assertThat(result.tasks())
          .extracting(TaskResult::end)
          .containsExactly(End.FINISHED, End.STOPPED);
    }
  }

  @Test
  void workersThatGoOnAfterTheirChiefAreStoppedAfterAGrace() throws Exception {
    policy = policy(50, false, SuccessRule.USUAL, Cleaning.RUNNING);
    ClusterRequest.Builder request =
        workers(RestartPolicy.NEVER)
            .task("chief", 1, chief -> chief.servers("a"))
            .workerGrace(Duration.ZERO);
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "chief:0", 0);

      ClusterResult result = result(cluster);

      assertThat(result.succeeded()).isTrue();
      assertThat(result.exitCode()).isZero();
      assertThat(result.tasks())
          .extracting(TaskResult::end)
          .containsExactly(End.STOPPED, End.STOPPED, End.FINISHED);
    }
    assertThat(events)
        .contains(
            new ClusterEvent.Note(
                "chief:0 has finished; waiting up to 0 s for worker:0, worker:1"));
    assertThat(a.held() + b.held()).isZero();
  }

  @Test
  void workersThatEndSoonAfterTheirChiefAreNotStopped() throws Exception {
    policy = policy(50, false, SuccessRule.USUAL, Cleaning.RUNNING);
    ClusterRequest.Builder request =
        workers(RestartPolicy.NEVER)
            .task("chief", 1, chief -> chief.servers("a"))
            .workerGrace(Duration.ofHours(1));
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "chief:0", 0);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).tasks()).extracting(TaskResult::end).containsOnly(End.FINISHED);
    }
  }

  @Test
  void aShareOfTheWorkersMayBeEnough() throws Exception {
    policy = policy(50, false, SuccessRule.share(50), Cleaning.RUNNING);
    try (Cluster cluster = start(workers(RestartPolicy.NEVER))) {
      started(cluster);
      exit(a, "worker:0", 1);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
  }

  @Test
  void aShareThatCannotBeReachedAnyMoreIsAFailure() throws Exception {
    policy = policy(50, false, SuccessRule.share(51), Cleaning.RUNNING);
    try (Cluster cluster = start(workers(RestartPolicy.NEVER))) {
      started(cluster);
      exit(a, "worker:0", 3);

      assertThat(result(cluster).exitCode()).isEqualTo(3);
    }
  }

  @Test
  void whatIsKeptRunningEndsWhenItIsCancelledAndTheOutcomeStays() throws Exception {
    policy = policy(50, false, SuccessRule.CHIEF, Cleaning.NONE);
    try (Cluster cluster = start(workers(RestartPolicy.NEVER))) {
      started(cluster);
      exit(a, "worker:0", 0);
      await().until(() -> notes().contains("worker:1 goes on"));
      assertThat(cluster.ended()).isNotDone();
      assertThat(b.held()).isOne();

      cluster.stop();

      ClusterResult result = result(cluster);
      assertThat(result.succeeded()).isTrue();
      assertThat(result.tasks().get(1).end()).isEqualTo(End.STOPPED);
    }
    assertThat(b.held()).isZero();
  }

  @Test
  void onlyParameterServersAreStoppedWhereTheOthersMayFinish() throws Exception {
    policy = policy(50, false, SuccessRule.CHIEF, Cleaning.PS);
    ClusterRequest.Builder request =
        workers(RestartPolicy.NEVER).task("ps", 1, ps -> ps.servers("b"));
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "worker:0", 0);
      await().until(() -> events.stream().anyMatch(this::isEndOfPs));
      assertThat(cluster.ended()).isNotDone();
      exit(b, "worker:1", 0);

      assertThat(result(cluster).tasks())
          .extracting(TaskResult::end)
          .containsExactly(End.FINISHED, End.FINISHED, End.STOPPED);
    }
  }

  private boolean isEndOfPs(ClusterEvent event) {
    return event instanceof ClusterEvent.Ended end && end.result().task().type().equals("ps");
  }

  @Test
  void whatTasksLeftIsDeletedWhereEverythingIsToBeCleaned() throws Exception {
    policy = policy(50, false, SuccessRule.ALL_WORKERS, Cleaning.ALL);
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      exit(a, "worker:0", 1);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);
      assertThat(result(cluster).succeeded()).isTrue();
    }
    assertThat(a.removed).hasSize(2);
    assertThat(b.removed).hasSize(1);
  }

  @Test
  void whenItsTimeIsOverItStartsAgainAsOftenAsItMay() throws Exception {
    policy =
        new ClusterPolicy(
            0,
            false,
            Duration.ofMillis(1),
            SuccessRule.ALL_WORKERS,
            Cleaning.RUNNING,
            Optional.empty(),
            Optional.of(new Warning("USR1", Duration.ofSeconds(20))),
            1,
            "/checkpoints");
    ClusterRequest.Builder request =
        workers(RestartPolicy.NEVER)
            .timeLimit(Duration.ofMinutes(10))
            .task("ps", 1, ps -> ps.servers("b"));
    try (Cluster cluster = start(request)) {
      started(cluster);
      exit(a, "worker:0", ExitReason.EXIT_REASON_TIME_LIMIT, 143);
      await().until(() -> events.stream().anyMatch(ClusterEvent.Reforming.class::isInstance));
      // The other one may still be saving what its parameter server has.
      assertThat(events).noneMatch(this::isEndOfPs);
      exit(b, "worker:1", ExitReason.EXIT_REASON_TIME_LIMIT, 143);
      await().until(() -> a.launched.size() == 2 && b.launched.size() == 4);
      exit(b, "worker:1", ExitReason.EXIT_REASON_TIME_LIMIT, 143);

      ClusterResult result = result(cluster);

      assertThat(result.outcome()).isEqualTo(Outcome.TIME_LIMIT);
      assertThat(result.exitCode()).isEqualTo(124);
    }
    assertThat(b.launched)
        .filteredOn(run -> run.getName().startsWith("ps"))
        .hasSize(2)
        .allSatisfy(run -> assertThat(run.getLimits().hasWarning()).isFalse());
    assertThat(a.launched)
        .allSatisfy(
            run -> {
              assertThat(variable(run, "CHECKPOINT_DIR")).isEqualTo("/checkpoints");
              assertThat(run.getMountsList()).hasSize(1);
              assertThat(run.getLimits().getWarning().getSignal()).isEqualTo("USR1");
              assertThat(run.getLimits().getTime().getSeconds()).isBetween(590L, 600L);
            });
  }

  @Test
  void aTaskThatStartsAgainHasOnlyTheTimeThatIsLeft() throws Exception {
    try (Cluster cluster =
        start(workers(RestartPolicy.ON_FAILURE).timeLimit(Duration.ofHours(1)))) {
      started(cluster);
      exit(a, "worker:0", 1);
      await().until(() -> a.launched.size() == 2);
    }
    assertThat(time(a.launched.get(1))).isLessThan(time(a.launched.get(0)));
  }

  private static Duration time(RunCodeRequest run) {
    return berth.rpc.Messages.duration(run.getLimits().getTime());
  }

  @Test
  void whoWantsItToEndWhileItIsFormedAgainIsHeard() throws Exception {
    try (Cluster cluster = start(workers(RestartPolicy.ON_FAILURE))) {
      started(cluster);
      group.tellGone("a");
      a.lose();
      await().until(() -> events.stream().anyMatch(ClusterEvent.Waiting.class::isInstance));

      cluster.stop();

      ClusterResult result = result(cluster);
      assertThat(result.outcome()).isEqualTo(Outcome.CANCELLED);
      assertThat(result.tasks()).hasSize(2);
    }
    assertThat(a.held() + b.held()).isZero();
  }

  // From here on: somebody goes on with the ledger of one who was killed.

  private Ledger ledger(ClusterStatus begun, CompletableFuture<Void> killed) {
    return Ledger.supervised(
        status -> {
          if (killed.isDone()) {
            standStill();
          }
          saved = status;
        },
        begun,
        Clock.systemUTC());
  }

  // Every step is saved before it is done, so whoever gets no further there does nothing any more.
  private void standStill() {
    try {
      over.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    throw new IllegalStateException("killed");
  }

  private static ClusterStatus submitted() {
    return ClusterStatus.newBuilder().setClusterId("c-1").setName("test").build();
  }

  private Cluster supervise(
      ClusterRequest.Builder request, ClusterStatus begun, CompletableFuture<Void> killed) {
    return Cluster.start(group.client, request.build(), ledger(begun, killed), events::add);
  }

  @Test
  void oneThatGoesOnStartsNoTaskTwice() throws Exception {
    ClusterRequest.Builder request = workers(RestartPolicy.ON_FAILURE);
    CompletableFuture<Void> killed = new CompletableFuture<>();
    Cluster first = supervise(request, submitted(), killed);
    started(first);
    killed.complete(null);
    ClusterStatus left = saved;
    // It never ends: who is killed says nothing more.

    Cluster second = supervise(request, left, new CompletableFuture<>());
    started(second);
    exit(a, "worker:0", 1);
    await().until(() -> a.launched.size() >= 2);
    exit(b, "worker:1", 0);
    exit(a, "worker:0", 0);

    assertThat(result(second).succeeded()).isTrue();
    assertThat(b.launched).hasSize(1);
    assertThat(saved.getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
  }

  @Test
  void nothingStartsAgainBeforeThatIsWrittenDownAndWhyIsToldAfterwards() throws Exception {
    AtomicBoolean full = new AtomicBoolean();
    AtomicInteger refused = new AtomicInteger();
    Ledger ledger =
        Ledger.supervised(
            status -> {
              if (full.get()) {
                refused.incrementAndGet();
                throw new IOException("No space left on device");
              }
              saved = status;
            },
            submitted(),
            Clock.systemUTC());
    try (Cluster cluster =
        Cluster.start(
            group.client, workers(RestartPolicy.ON_FAILURE).build(), ledger, events::add)) {
      started(cluster);
      full.set(true);
      exit(a, "worker:0", 1);
      await().until(() -> refused.get() >= 3);
      assertThat(a.launched).hasSize(1);

      full.set(false);
      exit(a, "worker:0", 0);
      exit(b, "worker:1", 0);

      assertThat(result(cluster).succeeded()).isTrue();
    }
    assertThat(a.launched).hasSize(2);
    assertThat(saved.getNotesList())
        .extracting(ClusterNote::getText)
        .containsExactly("its state cannot be written: No space left on device");
  }

  @Test
  void everyMomentAtWhichItIsKilledIsAGoodOneToGoOnFrom() throws Exception {
    // Every state that one saves who is not killed.
    List<ClusterStatus> states = new CopyOnWriteArrayList<>();
    ClusterRequest.Builder request = workers(RestartPolicy.ON_FAILURE);
    Ledger recording = Ledger.supervised(states::add, submitted(), Clock.systemUTC());
    Cluster whole = Cluster.start(group.client, request.build(), recording, events::add);
    started(whole);
    exit(a, "worker:0", 1);
    exit(a, "worker:0", 0);
    exit(b, "worker:1", 0);
    assertThat(result(whole).succeeded()).isTrue();
    int launchedByOne = a.launched.size() + b.launched.size();

    for (ClusterStatus state : states) {
      // All runs of the fakes are over, and known: nothing restarts of what was begun.
      int begun = attempts(state);
      Cluster next = supervise(request, state, new CompletableFuture<>());
      finishWhatRuns(next);
      ClusterResult result = result(next);
      if (state.getPhase() == ClusterPhase.CLUSTER_PHASE_STARTING
          || state.getPhase() == ClusterPhase.CLUSTER_PHASE_RUNNING) {
        // What it held is gone since, so what it may not take for done starts again elsewhere.
        assertThat(result.succeeded()).as(state.toString()).isTrue();
      }
      assertThat(attempts(saved)).isGreaterThanOrEqualTo(begun);
      assertThat(saved.getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
      assertThat(a.held() + b.held()).isZero();
    }
    assertThat(launchedByOne).isEqualTo(3);
  }

  private void finishWhatRuns(Cluster cluster) {
    await()
        .until(
            () -> {
              a.exit("worker", FINISHED, 0);
              for (String task : List.of("worker:0", "worker:1")) {
                a.exit(task, FINISHED, 0);
                b.exit(task, FINISHED, 0);
              }
              return cluster.ended().isDone();
            });
  }

  private static int attempts(ClusterStatus status) {
    return status.getTasksList().stream().mapToInt(TaskStatus::getAttemptsCount).sum();
  }

  @Test
  void aRequestWhoseAnswerWasNeverHeardIsRecognised() throws Exception {
    ClusterRequest.Builder request = workers(RestartPolicy.NEVER);
    CompletableFuture<Void> killed = new CompletableFuture<>();
    Cluster first = supervise(request, submitted(), killed);
    started(first);
    killed.complete(null);
    // As it was saved before the servers had answered.
    ClusterStatus.Builder left = saved.toBuilder();
    left.getTasksBuilderList()
        .forEach(
            task -> {
              TaskAttempt.Builder attempt = task.getAttemptsBuilder(0);
              attempt.clearRunId().clearStartedAt();
            });

    Cluster second = supervise(request, left.build(), new CompletableFuture<>());
    started(second);
    exit(a, "worker:0", 0);
    exit(b, "worker:1", 0);

    assertThat(result(second).succeeded()).isTrue();
    assertThat(a.launched).hasSize(1);
    assertThat(b.launched).hasSize(1);
  }

  @Test
  void aRegistryThatHasJustStartedAndKnowsNobodyYetIsNoReasonToFail() throws Exception {
    group.tellGone("a");
    group.tellGone("b");
    Cluster cluster =
        supervise(workers(RestartPolicy.NEVER), submitted(), new CompletableFuture<>());
    await().until(() -> saved != null && saved.getWaitingFor().contains("no server is registered"));

    group.tell(FakeRegistry.server("a", a.address(), 1, 1));
    group.tell(FakeRegistry.server("b", b.address(), 1, 1));

    started(cluster);
    cluster.close();
  }

  @Test
  void tasksOfSupervisedClustersOutliveTheirSupervisor() throws Exception {
    Cluster cluster =
        supervise(workers(RestartPolicy.NEVER), submitted(), new CompletableFuture<>());
    started(cluster);

    assertThat(a.launched).allMatch(RunCodeRequest::getDetached);
    cluster.close();
  }

  private String notes() {
    return events.toString();
  }
}
