package berth.client.cluster;

import java.time.Duration;
import java.util.List;

/** Something that happens to a cluster. */
public sealed interface ClusterEvent {
  /** It waits: for other clusters that came before, or for servers that have no room. */
  record Waiting(String why) implements ClusterEvent {}

  /** Everything is reserved; the tasks are being started. */
  record Formed(ClusterPlan plan, ClusterSpec spec) implements ClusterEvent {}

  /** The image of a task is being fetched. */
  record Pulling(TaskName task, String image, int percent) implements ClusterEvent {}

  /**
   * The program of a task runs.
   *
   * @param gpus the indices of its GPUs on its server
   */
  record Started(TaskName task, String server, String runId, List<Integer> gpus)
      implements ClusterEvent {}

  /** The programs of all tasks run. */
  record AllStarted() implements ClusterEvent {}

  /**
   * A task printed something.
   *
   * @param error whether on standard error
   * @param data the bytes as they were written; lines and characters may be cut anywhere
   */
  record Output(TaskName task, boolean error, byte[] data) implements ClusterEvent {}

  /** A task ended. */
  record Ended(TaskResult result) implements ClusterEvent {}

  /**
   * A task will be started again where it was.
   *
   * @param attempt which start that will be, from 1
   * @param pause how long until then
   * @param why how it ended
   */
  record Restarting(TaskName task, int attempt, Duration pause, String why)
      implements ClusterEvent {}

  /** All of it is stopped, and will be formed and started again. */
  record Reforming(String why) implements ClusterEvent {}

  /** Something else that people may want to know. */
  record Note(String text) implements ClusterEvent {}
}
