package berth.client.cluster;

import berth.client.spec.RunSpec;
import berth.client.spec.Warning;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;

/**
 * The tasks that are to work together. Made by a {@link Builder}:
 *
 * <pre>{@code
 * ClusterRequest.named("mnist")
 *     .all(task -> task.service("tensorflow").script("train.py"))
 *     .task("chief", 1, chief -> chief.gpus(1))
 *     .task("worker", 4, worker -> worker.gpus(1))
 *     .task("ps", 2, ps -> ps.memory("8g"))
 *     .build()
 * }</pre>
 *
 * @param name what it is, for people
 * @param groups the tasks by their types, in the order in which they are numbered and shown
 * @param layout where tasks go that could go to several servers
 * @param waitAtMost how long to wait until everything is free; empty: for ever
 * @param timeLimit how long the training may last
 * @param startTimeout how long the tasks may take to start
 * @param stopGrace time between the request to end, and its enforcement
 * @param evaluatorGrace how long the evaluator may go on after the training
 * @param workerGrace how long workers may go on after their chief, see {@link SuccessRule#USUAL}
 * @param policy how it is kept alive, and how it ends
 */
public record ClusterRequest(
    String name,
    List<TaskGroup> groups,
    Layout layout,
    Optional<Duration> waitAtMost,
    Optional<Duration> timeLimit,
    Duration startTimeout,
    Duration stopGrace,
    Duration evaluatorGrace,
    Duration workerGrace,
    ClusterPolicy policy) {
  /** The variable in which tasks find the folder that survives them. */
  static final String CHECKPOINT_FOLDER = "CHECKPOINT_DIR";

  private static final int LONGEST_NAME = 100;
  private static final int MOST_TASKS = 10_000;
  private static final Duration LONGEST = Duration.ofDays(36_500);

  /** Where tasks go that could go to several servers. */
  public enum Layout {
    /** To as many servers as possible. */
    SPREAD,
    /** To as few servers as possible. */
    PACK
  }

  public ClusterRequest {
    groups = List.copyOf(groups);
    checkName(name);
    check(!groups.isEmpty(), "the cluster " + name + " has no tasks");
    Set<String> types = new HashSet<>();
    for (TaskGroup group : groups) {
      check(types.add(group.type()), "'" + group.type() + "' is given twice");
    }
    check(
        !types.contains(TaskGroup.MASTER)
            || !types.contains(TaskGroup.CHIEF) && !types.contains(TaskGroup.EVALUATOR),
        "'master' is the old name of 'chief': TensorFlow takes it neither beside a 'chief' nor with"
            + " an 'evaluator'");
    check(
        groups.stream().anyMatch(TaskGroup::trains),
        "the cluster "
            + name
            + " has only background tasks: one must end by itself, for example 'worker'");
    check(
        groups.stream().mapToLong(TaskGroup::instances).sum() <= MOST_TASKS,
        "the cluster " + name + " has more than " + MOST_TASKS + " tasks");
    waitAtMost.ifPresent(time -> checkTime("the maximum wait", time, Duration.ZERO));
    timeLimit.ifPresent(time -> checkTime("the time limit", time, Duration.ofNanos(1)));
    checkTime("the start timeout", startTimeout, Duration.ofNanos(1));
    checkTime("the stop grace", stopGrace, Duration.ZERO);
    checkTime("the evaluator grace", evaluatorGrace, Duration.ZERO);
    checkTime("the worker grace", workerGrace, Duration.ZERO);
    policy.timeToLive().ifPresent(time -> checkTime("the time to live", time, Duration.ZERO));
    checkPolicy(policy, groups, timeLimit);
  }

  private static void checkPolicy(
      ClusterPolicy policy, List<TaskGroup> groups, Optional<Duration> timeLimit) {
    check(policy.resubmissions() == 0 || timeLimit.isPresent(), "'resubmit' requires 'time'");
    Stream.concat(
            policy.warning().stream(),
            groups.stream()
                .flatMap(group -> group.signal().stream())
                .flatMap(own -> own.warning().stream()))
        .forEach(
            warning ->
                check(
                    timeLimit.isPresent() && warning.before().compareTo(timeLimit.get()) < 0,
                    "the signal requires a time limit longer than "
                        + warning.before().toSeconds()
                        + " s"));
    check(
        groups.stream()
            .anyMatch(group -> group.trains() && group.restart() != RestartPolicy.ALWAYS),
        "with 'restart: always' for all tasks that train the cluster never ends; use 'on-failure'");
  }

  /**
   * The task whose end is that of the training, where one alone decides: the chief, or worker 0.
   */
  TaskName leader() {
    return groups.stream()
        .filter(group -> TaskGroup.isChief(group.type()))
        .findFirst()
        .or(
            () ->
                groups.stream().filter(group -> group.type().equals(TaskGroup.WORKER)).findFirst())
        .filter(TaskGroup::trains)
        .or(() -> groups.stream().filter(TaskGroup::trains).findFirst())
        .map(group -> new TaskName(group.type(), 0))
        .orElseThrow();
  }

  /** The signal that a task gets ahead of the end of the time limit. */
  Optional<Warning> warning(TaskName task) {
    TaskGroup group = group(task);
    return group
        .signal()
        .map(TaskSignal::warning)
        .orElseGet(() -> group.isWarned() ? policy.warning() : Optional.empty());
  }

  /** The same with another policy. */
  public ClusterRequest with(ClusterPolicy other) {
    return new ClusterRequest(
        name,
        groups,
        layout,
        waitAtMost,
        timeLimit,
        startTimeout,
        stopGrace,
        evaluatorGrace,
        workerGrace,
        other);
  }

  private static void checkTime(String what, Duration time, Duration least) {
    check(
        time.compareTo(least) >= 0 && time.compareTo(LONGEST) <= 0,
        what
            + " is "
            + time
            + ", which is "
            + (time.compareTo(least) < 0 ? "too short" : "too long"));
  }

  static void checkName(String name) {
    check(
        name.matches("[A-Za-z0-9][A-Za-z0-9._-]*") && name.length() <= LONGEST_NAME,
        "'" + name + "' is not the name of a cluster: letters, digits, and . _ - only");
  }

  /** The name of a cluster that has no other than that of a file: {@code train} of train.py. */
  public static String nameOf(Path file) {
    String name =
        Optional.ofNullable(file.getFileName())
            .map(Path::toString)
            .orElse("")
            .replaceFirst("(?<=.)\\.[^.]*$", "")
            .replaceAll("[^A-Za-z0-9._-]+", "-")
            .replaceFirst("^[^A-Za-z0-9]+", "");
    return name.isEmpty() ? "cluster" : name.substring(0, Math.min(name.length(), LONGEST_NAME));
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }

  /** All tasks, by the order of their groups. */
  public List<TaskName> tasks() {
    return groups.stream().flatMap(group -> group.tasks().stream()).toList();
  }

  /** The group of a task of this cluster. */
  public TaskGroup group(TaskName task) {
    return groups.stream()
        .filter(group -> group.type().equals(task.type()))
        .findFirst()
        .orElseThrow();
  }

  /** Begins a request. */
  public static Builder named(String name) {
    return new Builder(name);
  }

  /** Gathers what a cluster is made of. For one thread. */
  public static final class Builder {
    private record Begun(int instances, Consumer<RunSpec.Builder> details) {}

    private String name;
    private final List<Consumer<RunSpec.Builder>> all = new ArrayList<>();
    private final Map<String, Begun> groups = new LinkedHashMap<>();
    private final Map<String, Boolean> background = new LinkedHashMap<>();
    private RestartPolicy restart = RestartPolicy.NEVER;
    private final Map<String, RestartPolicy> restarts = new LinkedHashMap<>();
    private final Map<String, Integer> maxRestarts = new LinkedHashMap<>();
    private final Map<String, TaskSignal> signals = new LinkedHashMap<>();
    private ClusterPolicy policy = ClusterPolicy.USUAL;
    private Layout layout = Layout.SPREAD;
    private Optional<Duration> waitAtMost = Optional.empty();
    private Optional<Duration> timeLimit = Optional.empty();
    private Duration startTimeout = Duration.ofMinutes(10);
    private Duration stopGrace = Duration.ofSeconds(10);
    private Duration evaluatorGrace = Duration.ofMinutes(1);
    private Duration workerGrace = Duration.ofMinutes(1);

    private Builder(String name) {
      this.name = name;
    }

    public Builder name(String name) {
      this.name = name;
      return this;
    }

    /** Says something of all tasks, before each says its own. */
    public Builder all(Consumer<RunSpec.Builder> details) {
      all.add(details);
      return this;
    }

    /**
     * Adds the tasks of one type.
     *
     * @param details what they are, need and may, beyond what all have
     * @throws BerthException if there are some already
     */
    public Builder task(String type, int instances, Consumer<RunSpec.Builder> details) {
      check(
          groups.put(type, new Begun(instances, details)) == null, "'" + type + "' is given twice");
      return this;
    }

    /** Whether the tasks of a type are stopped when the others are done. */
    public Builder background(String type, boolean stopped) {
      background.put(type, stopped);
      return this;
    }

    /** Which ends of tasks are a reason to start them again, unless something else is said. */
    public Builder restart(RestartPolicy policy) {
      this.restart = policy;
      return this;
    }

    /** The same for the tasks of one type. */
    public Builder restart(String type, RestartPolicy policy) {
      restarts.put(type, policy);
      return this;
    }

    /** How often each task of a type may be started again. */
    public Builder maxRestarts(String type, int times) {
      maxRestarts.put(type, times);
      return this;
    }

    /** What the tasks of a type get ahead of the end, whatever the policy says. */
    public Builder signal(String type, TaskSignal signal) {
      signals.put(type, signal);
      return this;
    }

    /** How it is kept alive, and how it ends. */
    public Builder policy(ClusterPolicy policy) {
      this.policy = policy;
      return this;
    }

    public Builder layout(Layout layout) {
      this.layout = layout;
      return this;
    }

    /** How long to wait until everything is free; nothing: not at all. */
    public Builder waitAtMost(Duration time) {
      this.waitAtMost = Optional.of(time);
      return this;
    }

    /** How long the training may last. */
    public Builder timeLimit(Duration time) {
      this.timeLimit = Optional.of(time);
      return this;
    }

    /** How long the tasks may take to start, with the fetching of images. */
    public Builder startTimeout(Duration time) {
      this.startTimeout = time;
      return this;
    }

    /** Time between the request to a task to end, and its enforcement. */
    public Builder stopGrace(Duration time) {
      this.stopGrace = time;
      return this;
    }

    /** How long the evaluator may go on after the training. */
    public Builder evaluatorGrace(Duration time) {
      this.evaluatorGrace = time;
      return this;
    }

    /** How long workers may go on after their chief. */
    public Builder workerGrace(Duration time) {
      this.workerGrace = time;
      return this;
    }

    /**
     * @throws BerthException if something is missing, or contradicts itself
     */
    public ClusterRequest build() {
      List<TaskGroup> built = new ArrayList<>();
      groups.forEach((type, begun) -> built.add(group(type, begun)));
      Stream.of(background, restarts, maxRestarts, signals)
          .flatMap(said -> said.keySet().stream())
          .forEach(type -> check(groups.containsKey(type), "there are no tasks '" + type + "'"));
      return new ClusterRequest(
          name,
          built,
          layout,
          waitAtMost,
          timeLimit,
          startTimeout,
          stopGrace,
          evaluatorGrace,
          workerGrace,
          policy);
    }

    /**
     * What {@link #build} makes of the tasks of one type, for those who want to know it earlier.
     */
    TaskGroup group(String type) {
      return group(type, groups.get(type));
    }

    private TaskGroup group(String type, Begun begun) {
      RunSpec.Builder run = RunSpec.builder();
      all.forEach(details -> details.accept(run));
      if (type.equals(TaskGroup.TENSORBOARD)) {
        // What the others run is not meant for it.
        run.program(TaskGroup.tensorBoard("."), true);
      }
      begun.details().accept(run);
      if (!policy.checkpoints().isEmpty()) {
        run.mount(policy.checkpoints(), policy.checkpoints(), false);
        run.env(CHECKPOINT_FOLDER, policy.checkpoints());
      }
      RunSpec spec;
      try {
        spec = run.hostNetwork().build();
      } catch (BerthException e) {
        throw new BerthException(e.reason(), "'" + type + "': " + e.getMessage(), e);
      }
      return new TaskGroup(
          type,
          begun.instances(),
          spec,
          background.getOrDefault(type, TaskGroup.usuallyInBackground(type)),
          restarts.getOrDefault(type, restart),
          maxRestarts.getOrDefault(type, TaskGroup.USUAL_RESTARTS),
          Optional.ofNullable(signals.get(type)));
    }
  }
}
