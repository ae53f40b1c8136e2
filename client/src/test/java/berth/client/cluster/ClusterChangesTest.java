package berth.client.cluster;

import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_FAILED;
import static berth.v1.ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_KEPT;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_RUNNING;
import static berth.v1.ClusterPhase.CLUSTER_PHASE_STOPPING;
import static berth.v1.TaskEnd.TASK_END_RESTARTED;
import static berth.v1.TaskEnd.TASK_END_SERVER_LOST;
import static berth.v1.TaskEnd.TASK_END_STOPPED;
import static org.assertj.core.api.Assertions.assertThat;

import berth.client.cluster.ClusterChanges.Change;
import berth.fake.SampleStatus;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ClusterChangesTest {
  private static final ClusterStatus NOTHING = ClusterStatus.getDefaultInstance();

  private final SampleStatus mnist =
      new SampleStatus("cluster-5f2a", "mnist", "worker:0", "worker:1").gpus("worker:0", 2);
  private ClusterStatus before = NOTHING;

  /** What is told of the cluster after each step that a test makes. */
  private List<String> told() {
    ClusterStatus after = mnist.build();
    List<String> told = words(ClusterChanges.between(before, after));
    assertThat(ClusterChanges.between(after, after)).isEmpty();
    before = after;
    return told;
  }

  @Test
  void tellsALifeStepByStep() {
    assertThat(told()).isEmpty();
    mnist.waits("no room for worker:1");
    assertThat(told()).containsExactly("waits: no room for worker:1");
    mnist.formed();
    assertThat(told()).containsExactly("formed {worker:0=gpu00, worker:1=gpu01}");
    mnist.accepted("worker:1");
    assertThat(told()).containsExactly("worker:1 accepted 1");
    mnist.started("worker:1");
    assertThat(told()).containsExactly("worker:1 started 1 on gpu01 []");
    mnist.runs("worker:0").phase(CLUSTER_PHASE_RUNNING);
    assertThat(told())
        .containsExactly("worker:0 started 1 on gpu00 [0, 1]", "worker:0 accepted 1", "all run");
    mnist.note("beware");
    assertThat(told()).containsExactly("note: beware");
    mnist.finished("worker:0", 0);
    assertThat(told()).containsExactly("worker:0 ended 1: finished");
    mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).phase(CLUSTER_PHASE_STOPPING);
    assertThat(told()).isEmpty();
    mnist.ended("worker:1", TASK_END_STOPPED, "").over();
    assertThat(told()).containsExactly("worker:1 ended 1: stopped when the training was over");
  }

  @Test
  void aTaskThatIsStartedAgainIsToldWithWhatBecameOfIt() {
    mnist.formed().runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING);
    told();
    mnist.finished("worker:1", 137);
    assertThat(told()).containsExactly("worker:1 ended 1: exit code 137");
    mnist.again("worker:1");
    assertThat(told()).containsExactly("worker:1 again 2: exit code 137");
    mnist.runs("worker:1");
    assertThat(told()).containsExactly("worker:1 started 2 on gpu01 []", "worker:1 accepted 2");
  }

  @Test
  void allThatStartsAgainIsToldBeforeTheTasksThatAreStoppedForIt() {
    mnist.formed().runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING);
    told();
    mnist.ended("worker:1", TASK_END_SERVER_LOST, "gpu01 is lost").restarts("gpu01 is lost");
    assertThat(told()).containsExactly("worker:1 ended 1: gpu01 is lost", "anew: gpu01 is lost");
    mnist.ended("worker:0", TASK_END_RESTARTED, "");
    assertThat(told()).containsExactly("worker:0 ended 1: stopped, to start again");
    mnist.waits("no room");
    assertThat(told()).containsExactly("waits: no room");
    mnist.formed();
    assertThat(told()).containsExactly("formed {worker:0=gpu00, worker:1=gpu01}");
    mnist.runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING);
    assertThat(told()).endsWith("all run");
  }

  @Test
  void aNewStartThatWasMissedIsToldWithTheTaskThatIsToBlame() {
    mnist.formed().runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING);
    told();
    mnist.ended("worker:1", TASK_END_SERVER_LOST, "gpu01 is lost").restarts("gpu01 is lost");
    mnist.ended("worker:0", TASK_END_RESTARTED, "").waits("no room").formed().accepted("worker:0");

    assertThat(told())
        .containsExactly(
            "worker:1 ended 1: gpu01 is lost",
            "anew: worker:1 on gpu01: gpu01 is lost",
            "worker:0 ended 1: stopped, to start again",
            "formed {worker:0=gpu00, worker:1=gpu01}",
            "worker:0 accepted 2");
  }

  @Test
  void severalNewStartsThatWereMissedAreToldEach() {
    mnist.formed().runs("worker:0", "worker:1");
    told();
    for (int i = 0; i < 2; i++) {
      mnist.finished("worker:1", i + 1).restarts("");
      mnist.ended("worker:0", TASK_END_RESTARTED, "").formed().runs("worker:0", "worker:1");
    }

    assertThat(told())
        .containsExactly(
            "worker:1 ended 1: exit code 1",
            "anew: worker:1 on gpu01: exit code 1",
            "worker:0 ended 1: stopped, to start again",
            "worker:0 started 2 on gpu00 [0, 1]",
            "worker:0 accepted 2",
            "worker:1 started 2 on gpu01 []",
            "worker:1 accepted 2",
            "worker:1 ended 2: exit code 2",
            "anew: worker:1 on gpu01: exit code 2",
            "worker:0 ended 2: stopped, to start again",
            "formed {worker:0=gpu00, worker:1=gpu01}",
            "worker:0 started 3 on gpu00 [0, 1]",
            "worker:0 accepted 3",
            "worker:1 started 3 on gpu01 []",
            "worker:1 accepted 3");
  }

  @Test
  void thatAllRanIsKnownAlsoWhenTheEndCameFirst() {
    mnist.formed().runs("worker:0", "worker:1").finished("worker:0", 0).finished("worker:1", 0);
    mnist.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over();
    assertThat(told()).contains("all run");
  }

  @Test
  void notAllRanIfOneNeverStarted() {
    mnist.formed().runs("worker:0").finished("worker:0", 1);
    mnist.decided(CLUSTER_OUTCOME_FAILED, "worker:0 failed", 1).over();
    assertThat(told()).isNotEmpty().doesNotContain("all run");
  }

  @Test
  void noPlaceIsToldBeforeAllAreKnown() {
    mnist.formed();
    mnist.last("worker:1").clearAddress();
    assertThat(told()).isEmpty();
    mnist.last("worker:1").setAddress("no address:x");
    assertThat(told()).isEmpty();
    mnist.last("worker:1").setAddress("10.0.0.7:22");
    assertThat(told()).containsExactly("formed {worker:0=gpu00, worker:1=gpu01}");
  }

  @Test
  void eachNoteIsToldOnceThoughTheOldestAreDropped() {
    mnist.note("a").note("b").note("c");
    assertThat(told()).containsExactly("note: a", "note: b", "note: c");
    mnist.builder().removeNotes(0);
    mnist.note("c");
    assertThat(told()).containsExactly("note: c");
    mnist.builder().clearNotes();
    mnist.note("d").note("e");
    assertThat(told()).containsExactly("note: d", "note: e");
    mnist.builder().clearNotes();
    assertThat(told()).isEmpty();
  }

  @Test
  void oneThatIsKeptSaysWhyItDoesNotEnd() {
    mnist.formed().runs("worker:0", "worker:1").phase(CLUSTER_PHASE_RUNNING);
    told();
    mnist.decided(CLUSTER_OUTCOME_FAILED, "worker:1 failed", 3).phase(CLUSTER_PHASE_KEPT);
    assertThat(told())
        .containsExactly(
            "note: worker:1 failed; running tasks are kept, and 'berth cluster cancel mnist' ends"
                + " it");
  }

  @Test
  void anAttemptThatIsNoLongerListedIsNotToldAgain() {
    mnist.formed().runs("worker:0");
    for (int i = 0; i < 3; i++) {
      mnist.finished("worker:0", 1).again("worker:0").runs("worker:0");
    }
    told();
    mnist.builder().getTasksBuilder(0).removeAttempts(0);
    assertThat(told()).isEmpty();
    mnist.builder().getTasksBuilder(0).removeAttempts(0);
    mnist.finished("worker:0", 2);
    assertThat(told()).containsExactly("worker:0 ended 4: exit code 2");
  }

  @Test
  void whoComesLaterIsToldHowItIs() {
    mnist.formed().runs("worker:0", "worker:1").finished("worker:0", 1).again("worker:0");
    mnist.runs("worker:0").finished("worker:1", 0).phase(CLUSTER_PHASE_RUNNING).note("old");

    assertThat(words(ClusterChanges.now(mnist.build())))
        .containsExactly(
            "formed {worker:0=gpu00, worker:1=gpu01}",
            "worker:0 started 2 on gpu00 [0, 1]",
            "worker:0 accepted 2",
            "all run");
    mnist.restarts("gpu01 is lost");
    assertThat(words(ClusterChanges.now(mnist.build())))
        .startsWith("formed {worker:0=gpu00, worker:1=gpu01}", "anew: gpu01 is lost");
    mnist.finished("worker:0", 1).waits("no room");
    assertThat(words(ClusterChanges.now(mnist.build()))).containsExactly("waits: no room");
    mnist.over();
    assertThat(ClusterChanges.now(mnist.build())).isEmpty();
    assertThat(ClusterChanges.now(NOTHING)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
  void whateverStatesAreMissedEveryStepOfEveryAttemptIsToldOnceAndInOrder(long seed) {
    Random random = new Random(seed);
    List<ClusterStatus> states = life(random);
    ClusterStatus last = states.get(states.size() - 1);

    for (int missing = 0; missing < 20; missing++) {
      List<String> told = new ArrayList<>();
      ClusterStatus known = NOTHING;
      for (ClusterStatus state : states) {
        if (state == last || random.nextInt(20) >= missing) {
          told.addAll(words(ClusterChanges.between(known, state)));
          known = state;
        }
      }
      for (TaskStatus task : last.getTasksList()) {
        String name = ClusterStates.name(task).toString();
        assertThat(told.stream().filter(word -> word.startsWith(name + " ")))
            .map(word -> word.replaceAll("^\\S+ (\\S+ \\d+).*", "$1"))
            .satisfies(steps -> assertThat(sorted(steps)).isEqualTo(sorted(expected(task))))
            .filteredOn(step -> !step.startsWith("accepted"))
            .isEqualTo(expected(task).stream().filter(s -> !s.startsWith("accepted")).toList());
      }
      assertThat(told.stream().filter(word -> word.startsWith("anew: ")))
          .hasSize(last.getFormation() - 1);
      assertThat(told.stream().filter(word -> word.startsWith("note: ")))
          .containsExactlyElementsOf(
              last.getNotesList().stream().map(note -> "note: " + note.getText()).toList());
    }
  }

  private static List<String> sorted(List<? extends String> steps) {
    return steps.stream().map(String::valueOf).sorted().toList();
  }

  private static List<String> expected(TaskStatus task) {
    List<String> steps = new ArrayList<>();
    TaskAttempt previous = TaskAttempt.getDefaultInstance();
    for (TaskAttempt attempt : task.getAttemptsList()) {
      if (attempt.getNumber() > 1 && attempt.getFormation() == previous.getFormation()) {
        steps.add("again " + attempt.getNumber());
      }
      steps.add("started " + attempt.getNumber());
      steps.add("accepted " + attempt.getNumber());
      steps.add("ended " + attempt.getNumber());
      previous = attempt;
    }
    return steps;
  }

  /** Every state of a cluster whose tasks fail, alone or with all others, again and again. */
  private static List<ClusterStatus> life(Random random) {
    SampleStatus cluster = new SampleStatus("c", "random", "worker:0", "worker:1", "ps:0");
    List<String> tasks = List.of("worker:0", "worker:1", "ps:0");
    List<ClusterStatus> states = new ArrayList<>();
    int formations = 1 + random.nextInt(4);
    for (int formation = 1; formation <= formations; formation++) {
      states.add(cluster.waits("line " + random.nextInt()).build());
      states.add(cluster.formed().build());
      for (String task : tasks) {
        states.add(cluster.accepted(task).build());
        states.add(cluster.started(task).build());
      }
      states.add(cluster.phase(CLUSTER_PHASE_RUNNING).build());
      for (int restarts = random.nextInt(4); restarts > 0; restarts--) {
        String task = tasks.get(random.nextInt(tasks.size()));
        states.add(cluster.finished(task, 1).build());
        states.add(cluster.note("note " + random.nextInt()).again(task).build());
        states.add(cluster.accepted(task).build());
        states.add(cluster.started(task).build());
      }
      if (formation < formations) {
        states.add(cluster.restarts("because " + formation).build());
      }
      for (String task : tasks) {
        states.add(
            formation < formations
                ? cluster.ended(task, TASK_END_RESTARTED, "").build()
                : cluster.finished(task, 0).build());
      }
    }
    states.add(cluster.decided(CLUSTER_OUTCOME_SUCCEEDED, "", 0).over().build());
    return states;
  }

  private static List<String> words(List<Change> changes) {
    return changes.stream().map(ClusterChangesTest::words).toList();
  }

  private static String words(Change change) {
    if (change instanceof Change.Accepted accepted) {
      return accepted.task() + " accepted " + accepted.attempt().getNumber();
    }
    if (change instanceof Change.OfTask step) {
      int number = step.attempt().getNumber();
      if (step.event() instanceof ClusterEvent.Started started) {
        assertThat(started.runId()).isEqualTo(step.attempt().getRunId());
        return started.task()
            + " started "
            + number
            + " on "
            + started.server()
            + " "
            + started.gpus();
      }
      if (step.event() instanceof ClusterEvent.Restarting again) {
        assertThat(again.attempt()).isEqualTo(number);
        return again.task() + " again " + number + ": " + again.why();
      }
      TaskResult result = ((ClusterEvent.Ended) step.event()).result();
      return result.task() + " ended " + number + ": " + result.why();
    }
    ClusterEvent event = ((Change.OfCluster) change).event();
    if (event instanceof ClusterEvent.Waiting waiting) {
      return "waits: " + waiting.why();
    }
    if (event instanceof ClusterEvent.Formed formed) {
      List<String> places = new ArrayList<>();
      formed.plan().servers().forEach((task, server) -> places.add(task + "=" + server.name()));
      return "formed {" + String.join(", ", places) + "}";
    }
    if (event instanceof ClusterEvent.Reforming again) {
      return "anew: " + again.why();
    }
    return event instanceof ClusterEvent.AllStarted
        ? "all run"
        : "note: " + ((ClusterEvent.Note) event).text();
  }
}
