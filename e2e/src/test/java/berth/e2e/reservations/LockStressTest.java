package berth.e2e.reservations;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.ReservationClient;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.Python;
import berth.e2e.reservations.Referee.Verdict;
import berth.rpc.Address;
import berth.v1.ListReservationsResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tries to make two hold the same GPU: everyone who can take one, at the same time, and killed at
 * random.
 *
 * <p>{@code scripts/stress.sh} runs it for longer: a minute at least.
 */
class LockStressTest {
  private static final Duration SETTLE = Duration.ofSeconds(5);
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final double LONGEST_GAP_SECONDS = 30;

  private final long seconds = Long.getLong("stress.seconds", 15);
  private final long seed = Long.getLong("stress.seed", new Random().nextLong());
  private final Random random = new Random(seed);

  @TempDir private Path folder;
  private Path locks;

  @BeforeEach
  void makeLockFolder() throws Exception {
    locks = Files.createDirectory(folder.resolve("locks"));
  }

  // It takes as long as it is told to.
  @Timeout(value = 1, unit = TimeUnit.DAYS)
  @Test
  void noGpuIsHeldByTwoWhoeverIsKilledWhen() throws Exception {
    System.out.printf("Fighting for GPUs for %d s, seed %d%n", seconds, seed);
    try (Daemon steady = berthd("steady");
        RestartedDaemon restarted = new RestartedDaemon(() -> berthd("restarted"));
        ReservationClient client = ReservationClient.of(Address.parse(steady.address(), 0));
        Referee referee = Referee.start(folder)) {
      Contest contest = new Contest(folder, locks, referee);
      run(contest, contenders(contest, client, restarted), referee);
      assertThat(locksThatAreNotFree()).isEmpty();
      Verdict verdict = referee.verdict();
      print(contest, verdict);
      check(verdict, referee);

      restarted.kill();
      restarted.start();
      leavesNothing(restarted.client(), "restarted");
      leavesNothing(client, "steady");
      assertThat(steady.stop()).isZero();
      assertThat(restarted.daemon().stop()).isZero();
    } catch (Throwable e) {
      System.out.println("It failed with seed " + seed);
      throw e;
    }
    await().atMost(SETTLE).untilAsserted(() -> assertThat(processesLeft()).isEmpty());
  }

  private List<Callable<Void>> contenders(
      Contest contest, ReservationClient client, RestartedDaemon restarted) {
    List<Callable<Void>> contenders = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      contenders.add(contest.leases(Kind.LEASE + "-" + i, client, nextRandom()));
    }
    for (int i = 0; i < 3; i++) {
      contenders.add(contest.processes(Kind.PROCESS + "-" + i, restarted, nextRandom()));
    }
    for (int i = 0; i < 2; i++) {
      contenders.add(contest.lockCommands(Kind.LOCK + "-" + i, nextRandom()));
      contenders.add(contest.fasteners(Kind.FASTENERS + "-" + i, nextRandom()));
    }
    contenders.add(contest.restarts(restarted, nextRandom()));
    return contenders;
  }

  private Random nextRandom() {
    return new Random(random.nextLong());
  }

  private void run(Contest contest, List<Callable<Void>> contenders, Referee referee)
      throws Exception {
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      CompletionService<Void> ended = new ExecutorCompletionService<>(threads);
      List<Future<Void>> ends = contenders.stream().map(ended::submit).toList();
      // None ends before it is told to, unless something is wrong with it.
      boolean failed = ended.poll(seconds, TimeUnit.SECONDS) != null;
      contest.stop();
      referee.endOfContest();
      for (int i = failed ? 1 : 0; i < ends.size(); i++) {
        assertThat(ended.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isNotNull();
      }
      for (Future<Void> end : ends) {
        end.get();
      }
    } finally {
      threads.shutdownNow();
    }
  }

  private void check(Verdict verdict, Referee referee) {
    assertThat(verdict.overlaps()).as(referee::evidence).isZero();
    assertThat(verdict.remaining()).isEmpty();
    assertThat(verdict.grants(Kind.LEASE)).isGreaterThan((int) seconds * 2);
    // Those that are processes of their own take seconds to start beside other tests.
    int fewest = Math.max(0, (int) seconds / 15 - 1);
    for (Kind kind : Kind.values()) {
      assertThat(verdict.grants(kind)).as("grants of %s", kind).isGreaterThan(fewest);
      assertThat(verdict.longestGap(kind))
          .as("the longest time in s in which %s got no GPUs", kind)
          .isLessThan(LONGEST_GAP_SECONDS);
    }
  }

  private void leavesNothing(ReservationClient client, String name) {
    await()
        .atMost(SETTLE)
        .untilAsserted(
            () -> {
              ListReservationsResponse list = client.listReservations(PATIENCE);
              assertThat(list.getReservationsList()).isEmpty();
              assertThat(list.getWaitingList()).isEmpty();
              assertThat(list.getLockedByOthersList()).isEmpty();
              assertThat(Leftovers.filesIn(folder.resolve(name)))
                  .containsExactly("bundles", "clusters", "lock", "runs");
            });
  }

  private List<String> processesLeft() {
    return Leftovers.processesIn(folder);
  }

  private String locksThatAreNotFree() {
    List<String> check = Python.script("locks_are_free.py", locks);
    return Installed.run(check.toArray(String[]::new)).out();
  }

  private Daemon berthd(String name) {
    return Daemon.start(
        folder,
        "berthd",
        "--name",
        name,
        "--simulate-gpus",
        "" + Contest.GPUS,
        "--lock-dir",
        locks.toString(),
        "--state-dir",
        folder.resolve(name).toString());
  }

  private static void print(Contest contest, Verdict verdict) {
    StringBuilder text = new StringBuilder();
    for (Kind kind : Kind.values()) {
      text.append(
          String.format(
              Locale.ROOT,
              "%-9s %6d grants, %4d kills (%d while using GPUs), longest wait %.1f s, longest time"
                  + " without a grant %.1f s%n",
              kind,
              verdict.grants(kind),
              contest.kills(kind),
              verdict.killedWhileUsing(kind),
              verdict.longestWait(kind),
              verdict.longestGap(kind)));
    }
    text.append(
        String.format(
            Locale.ROOT,
            "%d restarts of a daemon that %d outlived with their GPUs%n"
                + "%d overlaps; the referee was at most %.3f s behind%n",
            contest.restarts(),
            verdict.outlivedServer(Kind.PROCESS),
            verdict.overlaps(),
            verdict.slowest()));
    System.out.print(text);
  }
}
