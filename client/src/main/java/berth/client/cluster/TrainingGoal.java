package berth.client.cluster;

import java.util.List;
import java.util.Map;

/**
 * When the training of a cluster is done, and when it cannot be any more, from nothing but how its
 * tasks have ended.
 */
final class TrainingGoal {
  private final ClusterRequest request;
  private final SuccessRule rule;
  private final List<TaskName> chiefs;
  private final List<TaskName> workers;

  TrainingGoal(ClusterRequest request) {
    this.request = request;
    this.rule = request.policy().success();
    List<TaskName> trainers =
        request.tasks().stream().filter(task -> request.group(task).trains()).toList();
    this.chiefs = trainers.stream().filter(task -> TaskGroup.isChief(task.type())).toList();
    this.workers = trainers.stream().filter(task -> !chiefs.contains(task)).toList();
  }

  /**
   * Whether it is done.
   *
   * @param ended those that have ended for good
   */
  boolean reached(Map<TaskName, TaskResult> ended) {
    return switch (rule.kind()) {
      case CHIEF -> well(request.leader(), ended);
      case USUAL, WORKERS -> allWell(chiefs, ended) && allWell(workers, ended);
      case SHARE ->
          allWell(chiefs, ended)
              && workers.stream().filter(task -> well(task, ended)).count()
                  >= rule.needed(workers.size());
    };
  }

  /**
   * The workers that go on although their chief is done, where that is the end of the training
   * after a grace. Otherwise none.
   */
  List<TaskName> outlivingChief(Map<TaskName, TaskResult> ended) {
    boolean chiefDone =
        rule.kind() == SuccessRule.Kind.USUAL && !chiefs.isEmpty() && allWell(chiefs, ended);
    return chiefDone
        ? workers.stream().filter(task -> !ended.containsKey(task)).toList()
        : List.of();
  }

  /** Whether it can still be done although a task has failed for good. */
  boolean reachableWithout(TaskName failed, Map<TaskName, TaskResult> ended) {
    return rule.kind() == SuccessRule.Kind.SHARE
        && workers.contains(failed)
        && workers.stream().filter(task -> well(task, ended) || !ended.containsKey(task)).count()
            >= rule.needed(workers.size());
  }

  private static boolean allWell(List<TaskName> tasks, Map<TaskName, TaskResult> ended) {
    return tasks.stream().allMatch(task -> well(task, ended));
  }

  private static boolean well(TaskName task, Map<TaskName, TaskResult> ended) {
    return ended.containsKey(task) && ended.get(task).well();
  }
}
