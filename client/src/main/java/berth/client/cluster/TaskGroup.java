package berth.client.cluster;

import berth.client.spec.RunSpec;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * The tasks of one type: equal but for their number.
 *
 * @param instances how many
 * @param run what each of them is, needs and may; its servers, exclusions and labels say where
 * @param background whether its tasks never end by themselves, and are stopped when the others are
 *     done
 * @param restart which ends are a reason to start a task again
 * @param maxRestarts how often each task may be started again
 * @param signal what its tasks get ahead of the end of the time limit; empty: what the policy says,
 *     if they train or evaluate
 */
public record TaskGroup(
    String type,
    int instances,
    RunSpec run,
    boolean background,
    RestartPolicy restart,
    int maxRestarts,
    Optional<TaskSignal> signal) {
  static final int USUAL_RESTARTS = 10;

  /** Stores the variables of a model. */
  public static final String PS = "ps";

  /** Trains, and leads the workers. */
  public static final String CHIEF = "chief";

  /** What {@code chief} was called before; TensorFlow 1 knows both. */
  public static final String MASTER = "master";

  /** Trains. */
  public static final String WORKER = "worker";

  /** Looks at checkpoints while the others train. */
  public static final String EVALUATOR = "evaluator";

  /** Shows how the training goes. */
  public static final String TENSORBOARD = "tensorboard";

  /** All of these. */
  static final Set<String> USUAL_TYPES = Set.of(PS, CHIEF, MASTER, WORKER, EVALUATOR, TENSORBOARD);

  public TaskGroup {
    TaskName.checkType(type);
    check(type, instances >= 1, "asks for " + instances + " instances; at least one is needed");
    check(
        type,
        instances == 1 || !isChief(type),
        "asks for " + instances + " instances, but a cluster has one at most");
    check(type, maxRestarts >= 0, "must not have " + maxRestarts + " restarts");
    check(
        type,
        run.resources().gpus().exactly().isEmpty(),
        "asks for exact GPUs, which clusters do not support");
    check(
        type,
        run.resources().ports() == 0,
        "asks for ports; every task of a cluster has one already");
  }

  private static void check(String type, boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, "'" + type + "' " + otherwise);
    }
  }

  /** How many GPUs each of them has; -1: all of a server. */
  public int gpuCount() {
    return run.resources().gpus().count();
  }

  static boolean isChief(String type) {
    return type.equals(CHIEF) || type.equals(MASTER);
  }

  /** Whether tasks of this type are stopped at the end, unless something else is said. */
  static boolean usuallyInBackground(String type) {
    return type.equals(PS) || type.equals(TENSORBOARD);
  }

  /**
   * The command that shows a folder in TensorBoard. Not by the name of its script, which is missing
   * where packages are installed into a folder of their own.
   */
  public static List<String> tensorBoard(String folder) {
    return List.of(
        "python3",
        "-m",
        "tensorboard.main",
        "--logdir",
        folder,
        "--host",
        "{host}",
        "--port",
        "{port}");
  }

  /** Whether the end of its tasks is the end of the training. */
  public boolean trains() {
    return !background && !type.equals(EVALUATOR);
  }

  /**
   * Whether its tasks get the signal of the policy. The default action of most signals ends a
   * process, and those that others stop have nothing to save.
   */
  boolean isWarned() {
    return !background && !usuallyInBackground(type);
  }

  /** The same with another run. */
  TaskGroup with(RunSpec other) {
    return new TaskGroup(type, instances, other, background, restart, maxRestarts, signal);
  }

  List<TaskName> tasks() {
    return IntStream.range(0, instances).mapToObj(i -> new TaskName(type, i)).toList();
  }
}
