package berth.e2e.soak;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.TaskResult.End;
import berth.e2e.soak.ClusterEnding.Attempt;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** That a {@link Soak} notices clusters that end as they must not. */
class ClusterTruthTest {
  private final Map<String, Journal> journals = new HashMap<>();
  private final Set<String> killed = new HashSet<>();
  private final Set<String> away = new HashSet<>();
  private boolean cancelled;

  private List<String> lies(String restart, ClusterEnding ending) {
    ClusterWish wish = new ClusterWish("c1", 1, 0, 1, restart, false, 0, 0, 8, 0, false);
    return new ClusterTruth(
            wish,
            run -> Optional.ofNullable(journals.get(run)),
            killed::contains,
            away::contains,
            cancelled)
        .lies(ending);
  }

  private void wrote(String run, OptionalInt end) {
    journals.put(run, new Journal(run, 1, "gpu01", List.of("0"), "c1", "worker:0", 10, end));
  }

  private static ClusterEnding ending(Outcome outcome, String why, End end, int code) {
    Attempt attempt =
        new Attempt("worker:0", "gpu01", "run-1", Optional.of(end), OptionalInt.of(code));
    return new ClusterEnding(outcome, why, 0, 0, List.of(attempt));
  }

  private static ClusterEnding failed(int code) {
    return ending(
        Outcome.FAILED, "worker:0 on gpu01 ended with exit code " + code, End.FINISHED, code);
  }

  @Test
  void aSuccessNeedsWorkersThatAreDone() {
    wrote("run-1", OptionalInt.of(0));

    ClusterEnding done = ending(Outcome.SUCCEEDED, "", End.FINISHED, 0);
    assertThat(lies(ClusterWish.ON_FAILURE, done)).isEmpty();
    assertThat(
            lies(ClusterWish.ON_FAILURE, new ClusterEnding(Outcome.SUCCEEDED, "", 0, 0, List.of())))
        .hasSize(1);
    wrote("run-1", OptionalInt.of(3));
    assertThat(lies(ClusterWish.ON_FAILURE, done)).hasSize(1);
    journals.clear();
    assertThat(lies(ClusterWish.ON_FAILURE, done)).hasSize(1);
  }

  @Test
  void aFailureNeedsAPolicyThatAllowsIt() {
    wrote("run-1", OptionalInt.of(3));

    assertThat(lies(ClusterWish.NEVER, failed(3))).isEmpty();
    assertThat(lies(ClusterWish.EXIT_CODE, failed(3))).isEmpty();
    assertThat(lies(ClusterWish.ON_FAILURE, failed(3))).hasSize(1);
    wrote("run-1", OptionalInt.of(0));
    assertThat(lies(ClusterWish.NEVER, failed(3))).hasSize(1);
  }

  @Test
  void aProgramIsKilledOnlyIfSomebodyDid() {
    wrote("run-1", OptionalInt.empty());
    assertThat(lies(ClusterWish.NEVER, failed(137))).hasSize(1);

    killed.add("run-1");

    assertThat(lies(ClusterWish.NEVER, failed(137))).isEmpty();
    assertThat(lies(ClusterWish.EXIT_CODE, failed(137))).hasSize(1);
  }

  @Test
  void aServerIsLostOnlyIfItWasAway() {
    ClusterEnding lost =
        new ClusterEnding(Outcome.FAILED, "worker:0 on gpu01 is lost: gone", 0, 0, List.of());
    assertThat(lies(ClusterWish.NEVER, lost)).hasSize(1);

    away.add("gpu01");

    assertThat(lies(ClusterWish.NEVER, lost)).isEmpty();
    assertThat(lies(ClusterWish.ON_FAILURE, lost)).hasSize(1);
  }

  @Test
  void nobodyIsCancelledOrOutOfTimeByItself() {
    ClusterEnding gone =
        new ClusterEnding(Outcome.CANCELLED, "it was cancelled from outside", 0, 0, List.of());
    assertThat(lies(ClusterWish.NEVER, gone)).hasSize(1);
    assertThat(lies(ClusterWish.NEVER, new ClusterEnding(Outcome.TIME_LIMIT, "", 0, 0, List.of())))
        .hasSize(1);
    assertThat(
            lies(
                ClusterWish.NEVER, new ClusterEnding(Outcome.FAILED, "who knows", 0, 0, List.of())))
        .hasSize(1);

    cancelled = true;

    assertThat(lies(ClusterWish.NEVER, gone)).isEmpty();
  }
}
