package berth.fake;

import berth.rpc.Address;
import berth.rpc.Messages;
import berth.v1.ClusterNote;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import berth.v1.TaskAttempt;
import berth.v1.TaskEnd;
import berth.v1.TaskStatus;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;

/**
 * The life of a supervised cluster, which a test tells step by step, a second each. Task number i
 * is on the server gpu0i, and its run of attempt n is "run-TYPE-INDEX-n".
 */
public final class SampleStatus {
  /** When it was handed over. */
  public static final Instant SUBMITTED = Instant.parse("2026-11-16T06:00:00Z");

  private final ClusterStatus.Builder status;
  private final Map<String, Address> addresses = new HashMap<>();
  private Instant now = SUBMITTED;

  /**
   * @param tasks such as "worker:0"
   */
  public SampleStatus(String id, String name, String... tasks) {
    status =
        ClusterStatus.newBuilder()
            .setClusterId(id)
            .setName(name)
            .setServer("gpu00")
            .setOwner(Owner.newBuilder().setUser("ann").setHost("lap"))
            .setSubmittedAt(Messages.timestamp(now));
    for (String task : tasks) {
      String[] parts = task.split(":");
      status.addTasks(
          TaskStatus.newBuilder().setType(parts[0]).setIndex(Integer.parseInt(parts[1])));
    }
  }

  public ClusterStatus build() {
    return status.build();
  }

  /** For what has no words here. */
  public ClusterStatus.Builder builder() {
    return status;
  }

  /** Has a server somewhere else than at 10.0.0.i:18812. */
  public SampleStatus at(String server, Address address) {
    addresses.put(server, address);
    return this;
  }

  public SampleStatus gpus(String task, int count) {
    task(task).setGpuCount(count);
    return this;
  }

  public SampleStatus waits(String why) {
    tick();
    status.setPhase(ClusterPhase.CLUSTER_PHASE_WAITING).setWaitingFor(why);
    return this;
  }

  public SampleStatus phase(ClusterPhase phase) {
    tick();
    status.setPhase(phase).clearWaitingFor();
    return this;
  }

  /** Everything is reserved, and each task has an attempt. */
  public SampleStatus formed() {
    status.setFormation(status.getFormation() + 1).setFormedAt(tick());
    status.setPhase(ClusterPhase.CLUSTER_PHASE_STARTING).clearWaitingFor();
    status.getTasksBuilderList().forEach(this::addAttempt);
    return this;
  }

  /** A task alone gets another attempt. */
  public SampleStatus again(String task) {
    tick();
    task(task).setRestarts(task(task).getRestarts() + 1);
    status.setRestarts(status.getRestarts() + 1);
    addAttempt(task(task));
    return this;
  }

  private void addAttempt(TaskStatus.Builder task) {
    int i = status.getTasksBuilderList().indexOf(task);
    int number = task.getAttemptsCount() + 1;
    TaskAttempt.Builder attempt =
        task.addAttemptsBuilder()
            .setNumber(number)
            .setFormation(status.getFormation())
            .setServer("gpu0" + i)
            .setServerAddress(
                addresses.getOrDefault("gpu0" + i, new Address("10.0.0." + i, 18812)).toString())
            .setAddress("10.0.0." + i + ":" + (20000 + number));
    for (int gpu = 0; gpu < task.getGpuCount(); gpu++) {
      attempt.addGpus(gpu);
    }
  }

  public SampleStatus accepted(String task) {
    tick();
    last(task).setRunId("run-" + task.replace(':', '-') + "-" + last(task).getNumber());
    return this;
  }

  public SampleStatus started(String task) {
    last(task).setStartedAt(tick());
    return this;
  }

  /** Accepted and started. */
  public SampleStatus runs(String... tasks) {
    for (String task : tasks) {
      accepted(task).started(task);
    }
    return this;
  }

  public SampleStatus ended(String task, TaskEnd end, String why) {
    TaskAttempt.Builder last = last(task).setEndedAt(tick()).setEnd(end).setWhy(why);
    if (last.hasStartedAt()) {
      last.setWallTime(
          Messages.duration(Duration.between(Messages.instant(last.getStartedAt()), now)));
    }
    return this;
  }

  public SampleStatus finished(String task, int exitCode) {
    last(task).setExitCode(exitCode);
    return ended(task, TaskEnd.TASK_END_FINISHED, exitCode == 0 ? "" : "exit code " + exitCode);
  }

  /** All tasks are to be stopped, in order to start again. */
  public SampleStatus restarts(String why) {
    tick();
    status.setPhase(ClusterPhase.CLUSTER_PHASE_RESTARTING).setWaitingFor(why);
    status.setRestarts(status.getRestarts() + 1);
    return this;
  }

  public SampleStatus note(String text) {
    status.addNotes(ClusterNote.newBuilder().setAt(tick()).setText(text));
    return this;
  }

  public SampleStatus decided(ClusterOutcome outcome, String why, int exitCode) {
    tick();
    status.setOutcome(outcome).setWhy(why).setExitCode(exitCode);
    return this;
  }

  public SampleStatus over() {
    status.setPhase(ClusterPhase.CLUSTER_PHASE_ENDED).clearWaitingFor().setEndedAt(tick());
    return this;
  }

  public TaskAttempt.Builder last(String task) {
    return task(task).getAttemptsBuilder(task(task).getAttemptsCount() - 1);
  }

  private TaskStatus.Builder task(String name) {
    return status.getTasksBuilderList().stream()
        .filter(task -> (task.getType() + ":" + task.getIndex()).equals(name))
        .findFirst()
        .orElseThrow();
  }

  private Timestamp tick() {
    now = now.plusSeconds(1);
    return Messages.timestamp(now);
  }
}
