package berth.cli;

import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterPlan;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.DetachedCluster;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import berth.rpc.PlainText;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The JSON of clusters, an object a line. Each event has its type in {@code event}; what belongs to
 * a task has its name in {@code task}. Durations are seconds.
 */
final class ClusterJson {
  private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

  private ClusterJson() {}

  /** Any event but output, which {@link #output} makes of whole lines. */
  static String event(ClusterEvent event) {
    if (event instanceof ClusterEvent.Waiting waiting) {
      return line(named("waiting", "why", waiting.why()));
    } else if (event instanceof ClusterEvent.Formed formed) {
      Map<String, Object> json = named("formed");
      json.put("tasks", placement(formed.plan(), formed.spec()));
      json.put("cluster", parsed(formed.spec().json()));
      return line(json);
    } else if (event instanceof ClusterEvent.Pulling pulling) {
      Map<String, Object> json = named("pulling", "task", pulling.task().toString());
      json.put("image", pulling.image());
      json.put("percent", pulling.percent());
      return line(json);
    } else if (event instanceof ClusterEvent.Started started) {
      Map<String, Object> json = named("started", "task", started.task().toString());
      json.put("server", started.server());
      json.put("run", started.runId());
      json.put("gpus", started.gpus());
      return line(json);
    } else if (event instanceof ClusterEvent.AllStarted) {
      return line(named("allStarted"));
    } else if (event instanceof ClusterEvent.Output output) {
      throw new IllegalArgumentException("output of " + output.task() + " comes in lines");
    } else if (event instanceof ClusterEvent.Ended ended) {
      Map<String, Object> json = named("ended");
      json.putAll(task(ended.result()));
      return line(json);
    } else if (event instanceof ClusterEvent.Restarting restarting) {
      Map<String, Object> json = named("restarting", "task", restarting.task().toString());
      json.put("attempt", restarting.attempt());
      json.put("pauseSeconds", seconds(restarting.pause()));
      json.put("why", restarting.why());
      return line(json);
    } else if (event instanceof ClusterEvent.Reforming reforming) {
      return line(named("reforming", "why", reforming.why()));
    } else if (event instanceof ClusterEvent.Note note) {
      return line(named("note", "text", note.text()));
    }
    throw new AssertionError(event);
  }

  /**
   * A line that a task printed, or a part of one.
   *
   * @param data with the end of the line, if it has one: together they are all that was printed
   */
  static String output(TaskName task, boolean error, String data) {
    Map<String, Object> json = named("output", "task", task.toString());
    json.put("stream", error ? "stderr" : "stdout");
    json.put("data", data);
    return line(json);
  }

  /** The last line. */
  static String result(ClusterResult result, int exitCode, Optional<Path> logs) {
    Map<String, Object> json = named("result", "name", result.name());
    json.put("outcome", result.outcome().name());
    json.put("why", result.why());
    json.put("exitCode", exitCode);
    json.put("seconds", seconds(result.wallTime()));
    logs.ifPresent(folder -> json.put("logs", folder.toString()));
    json.put("tasks", result.tasks().stream().map(ClusterJson::task).toList());
    return line(json);
  }

  /** A cluster that was handed over. */
  static String detached(DetachedCluster cluster) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("cluster", cluster.id());
    json.put("name", cluster.name());
    json.put("server", cluster.server());
    return line(json);
  }

  /** What {@code berth cluster plan} knows. */
  static String plan(ClusterRequest request, ClusterPlan plan, ClusterSpec spec) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("name", request.name());
    List<Map<String, Object>> tasks = new ArrayList<>();
    for (TaskName task : plan.servers().keySet()) {
      Map<String, Object> placed = placed(task, plan, spec);
      placed.put("gpus", request.group(task).gpuCount());
      placed.put("tfConfig", parsed(spec.tfConfig(task)));
      tasks.add(placed);
    }
    json.put("tasks", tasks);
    json.put("cluster", parsed(spec.json()));
    json.put("csv", spec.csv());
    return line(json);
  }

  private static List<Map<String, Object>> placement(ClusterPlan plan, ClusterSpec spec) {
    return plan.servers().keySet().stream().map(task -> placed(task, plan, spec)).toList();
  }

  private static Map<String, Object> placed(TaskName task, ClusterPlan plan, ClusterSpec spec) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("task", task.toString());
    json.put("server", plan.servers().get(task).name());
    json.put("address", spec.address(task).toString());
    return json;
  }

  private static Map<String, Object> task(TaskResult result) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("task", result.task().toString());
    json.put("server", result.server());
    json.put("run", result.runId());
    json.put("attempt", result.attempt());
    json.put("end", result.end().name());
    result.exitCode().ifPresent(code -> json.put("exitCode", code));
    json.put("why", result.why());
    json.put("seconds", seconds(result.wallTime()));
    return json;
  }

  private static Map<String, Object> named(String event) {
    Map<String, Object> json = new LinkedHashMap<>();
    json.put("event", event);
    return json;
  }

  private static Map<String, Object> named(String event, String key, String value) {
    Map<String, Object> json = named(event);
    json.put(key, value);
    return json;
  }

  private static double seconds(Duration duration) {
    return duration.toMillis() / 1000.0;
  }

  private static JsonElement parsed(String json) {
    return JsonParser.parseString(json);
  }

  private static String line(Map<String, Object> json) {
    return PlainText.escape(JSON.toJson(json));
  }
}
