package berth.client.cluster;

import berth.rpc.Address;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Who is where in a cluster, in every form in which its programs want to know it. All of it follows
 * from the addresses alone.
 */
public final class ClusterSpec {
  /** What TensorFlow takes for members of one cluster; others would make it fail, or wait. */
  private static final Set<String> TENSORFLOW =
      Set.of(TaskGroup.CHIEF, TaskGroup.MASTER, TaskGroup.WORKER, TaskGroup.PS);

  /** Those who never take part in collective operations. */
  private static final Set<String> RANKLESS =
      Set.of(TaskGroup.PS, TaskGroup.EVALUATOR, TaskGroup.TENSORBOARD);

  /** Those whose addresses are an empty list where there are none: scripts of old expect that. */
  static final Set<String> ALWAYS_KNOWN =
      Set.of(
          TaskGroup.CHIEF, TaskGroup.MASTER, TaskGroup.WORKER, TaskGroup.PS, TaskGroup.EVALUATOR);

  /** What follows a type in the placeholder for its addresses. */
  static final String HOSTS = "_hosts";

  static final Pattern BRACES = Pattern.compile("\\{([a-z][a-z0-9_-]*)\\}");
  private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

  private final Map<TaskName, Address> addresses;
  private final List<TaskName> ranks;

  /**
   * @param addresses of all tasks, in the order in which they are to be listed: those of one type
   *     by index
   */
  public ClusterSpec(Map<TaskName, Address> addresses) {
    this.addresses = new LinkedHashMap<>(addresses);
    List<TaskName> ranked = new ArrayList<>();
    addresses.keySet().stream().filter(task -> TaskGroup.isChief(task.type())).forEach(ranked::add);
    addresses.keySet().stream()
        .filter(task -> !TaskGroup.isChief(task.type()) && !RANKLESS.contains(task.type()))
        .forEach(ranked::add);
    this.ranks = List.copyOf(ranked);
  }

  /** Where a task listens. */
  public Address address(TaskName task) {
    return addresses.get(task);
  }

  /** All tasks: {@code {"worker":["host:port"],"ps":["host:port"]}}. */
  public String json() {
    return JSON.toJson(byType(addresses.keySet().stream().map(TaskName::type).toList()));
  }

  /** The same, a line for each: {@code host,port,role}. */
  public String csv() {
    return addresses.entrySet().stream()
        .map(
            entry ->
                entry.getValue().host()
                    + ","
                    + entry.getValue().port()
                    + ","
                    + entry.getKey().type()
                    + "\n")
        .collect(Collectors.joining());
  }

  /**
   * What TensorFlow expects in {@code TF_CONFIG}. An evaluator is in nobody's cluster but its own:
   * the others would wait for it.
   */
  public String tfConfig(TaskName task) {
    List<String> types = new ArrayList<>();
    for (TaskName each : addresses.keySet()) {
      boolean own = each.type().equals(task.type()) && task.type().equals(TaskGroup.EVALUATOR);
      if (own || TENSORFLOW.contains(each.type())) {
        types.add(each.type());
      }
    }
    Map<String, Object> config = new LinkedHashMap<>();
    config.put("cluster", byType(types));
    Map<String, Object> self = new LinkedHashMap<>();
    self.put("type", task.type());
    self.put("index", task.index());
    config.put("task", self);
    config.put("environment", "cloud");
    return JSON.toJson(config);
  }

  /** What PyTorch and its like expect; nothing for those who take no part. */
  Map<String, String> ranks(TaskName task) {
    int rank = ranks.indexOf(task);
    if (rank < 0) {
      return Map.of();
    }
    Address first = addresses.get(ranks.get(0));
    Map<String, String> env = new LinkedHashMap<>();
    env.put("MASTER_ADDR", first.host());
    env.put("MASTER_PORT", Integer.toString(first.port()));
    env.put("RANK", Integer.toString(rank));
    env.put("WORLD_SIZE", Integer.toString(ranks.size()));
    return env;
  }

  /**
   * Fills in what stands in braces: {@code {ps_hosts}} and the like for every type, {@code
   * {job_name}}, {@code {task_index}}, and the task's own {@code {host}} and {@code {port}}. Other
   * braces stay as they are.
   */
  String filled(String word, TaskName task) {
    Matcher matcher = BRACES.matcher(word);
    return matcher.replaceAll(
        found -> Matcher.quoteReplacement(value(found.group(1), task, found.group())));
  }

  private String value(String key, TaskName task, String otherwise) {
    Address own = addresses.get(task);
    return switch (key) {
      case "job_name" -> task.type();
      case "task_index" -> Integer.toString(task.index());
      case "host" -> own.host();
      case "port" -> Integer.toString(own.port());
      default ->
          key.endsWith(HOSTS)
              ? hosts(key.substring(0, key.length() - HOSTS.length()), otherwise)
              : otherwise;
    };
  }

  private String hosts(String type, String otherwise) {
    List<String> hosts = byType(List.of(type)).get(type);
    return hosts != null ? String.join(",", hosts) : ALWAYS_KNOWN.contains(type) ? "" : otherwise;
  }

  private Map<String, List<String>> byType(List<String> types) {
    Map<String, List<String>> cluster = new LinkedHashMap<>();
    addresses.forEach(
        (task, address) -> {
          if (types.contains(task.type())) {
            cluster.computeIfAbsent(task.type(), t -> new ArrayList<>()).add(address.toString());
          }
        });
    return cluster;
  }
}
