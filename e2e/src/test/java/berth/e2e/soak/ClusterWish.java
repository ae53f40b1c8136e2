package berth.e2e.soak;

import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

/**
 * A cluster that a soak asks for.
 *
 * @param gpus of each worker
 * @param restart the policy, as people write it
 * @param whole whether the whole cluster restarts when a task would
 * @param seconds its time; 0: it has enough
 * @param resubmissions how often it starts again when that is over
 * @param ticks how many quarters of a second each worker works
 * @param failures how many of the first starts of each task fail
 * @param stubborn whether only SIGKILL stops its tasks
 */
record ClusterWish(
    String name,
    int workers,
    int parameterServers,
    int gpus,
    String restart,
    boolean whole,
    int seconds,
    int resubmissions,
    int ticks,
    int failures,
    boolean stubborn) {
  static final String NEVER = "never";
  static final String ON_FAILURE = "on-failure";
  static final String EXIT_CODE = "exit-code";

  /** Any two servers have room for it. */
  static ClusterWish random(String name, int ticks, Random random) {
    int kind = random.nextInt(100);
    boolean resubmitted = kind < 15;
    boolean tooLong = kind >= 15 && kind < 20;
    int gpus = random.nextInt(3);
    return new ClusterWish(
        name,
        gpus == 2 ? 1 + random.nextInt(2) : 1 + random.nextInt(3),
        random.nextInt(3),
        gpus,
        kind < 75 ? ON_FAILURE : kind < 85 ? EXIT_CODE : NEVER,
        random.nextInt(4) == 0,
        resubmitted ? Math.max(2, ticks / 6) : tooLong ? Math.max(1, ticks / 8) : 0,
        resubmitted ? 3 : 0,
        ticks,
        random.nextInt(4) == 0 ? 1 + random.nextInt(2) : 0,
        random.nextInt(6) == 0);
  }

  /** Its cluster file. */
  String yaml(Path script, Witness witness) {
    List<String> words = witness.words(name, "{job_name}:{task_index}", ticks, failures, stubborn);
    return """
    name: %s
    script: ['%s', %s]
    restart: %s
    restart-scope: %s
    restart-pause: 300ms
    stop-grace: 5s
    %stasks:
      worker: {instances: %d, gpus: %d}
    %s\
    """
        .formatted(
            name,
            script,
            words.stream().map(word -> "'" + word + "'").collect(Collectors.joining(", ")),
            restart,
            whole ? "cluster" : "task",
            seconds == 0 ? "" : "time: " + seconds + "s\nresubmit: " + resubmissions + "\n",
            workers,
            gpus,
            parameterServers == 0 ? "" : "  ps: {instances: " + parameterServers + "}\n");
  }
}
