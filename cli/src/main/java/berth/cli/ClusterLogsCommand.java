package berth.cli;

import berth.client.call.ServerConnection;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterStates;
import berth.client.cluster.ClusterWatch;
import berth.client.cluster.TaskName;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth cluster logs}. */
@Command(
    name = "logs",
    sortOptions = false,
    description = {
      "Print the output of a cluster's tasks.",
      "",
      "Each line is prefixed with its task. Output is kept on the server where the task ran;"
          + " servers that cannot be reached, or no longer have it, are named on stderr.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster logs mnist",
      "  berth cluster logs -f mnist worker chief:0",
    })
final class ClusterLogsCommand implements Callable<Integer> {
  private static final int MOST_TASKS = 20;

  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--follow"},
      description = "Follow the output until the cluster ends; Ctrl-C detaches.")
  private boolean follow;

  @Option(
      names = "--json",
      description = "Print events as JSON lines, as 'berth cluster run --json' does.")
  private boolean json;

  @Parameters(
      index = "0",
      paramLabel = "NAME",
      description = "Cluster name, ID or unique ID prefix.")
  private String name;

  @Parameters(
      index = "1..*",
      paramLabel = "TASK",
      description = "Only these tasks: worker:1, or worker for all workers.")
  private List<String> tasks = List.of();

  @Override
  public Integer call() {
    try (Servers servers = server.servers();
        FoundCluster found = FoundCluster.find(servers, name)) {
      ClusterStatus begun = follow ? found.begun(ClusterLogsCommand::note) : found.cluster();
      Set<TaskName> wanted = wanted(begun, tasks);
      ClusterView view =
          ClusterView.ofThisProcess(
              json ? RunView.Detail.JSON : RunView.Detail.QUIET, ClusterStates.gpuCounts(begun));
      print(found, wanted, follow, view);
    } catch (UncheckedIOException e) {
      RunView.checkReaderHasGone(e);
    }
    return ExitCode.OK;
  }

  static void print(FoundCluster found, Set<TaskName> wanted, boolean follow, ClusterView view) {
    Consumer<ClusterEvent> shown = view.whileRead();
    try (ClusterWatch watch =
        new ClusterWatch(
            found.client(),
            found.id(),
            ServerConnection::new,
            event -> {
              // These are about what is missing here, and not part of it.
              if (event instanceof ClusterEvent.Note note) {
                view.note(note.text());
              } else {
                shown.accept(event);
              }
            })) {
      if (follow) {
        watch.follow(wanted::contains);
      } else {
        watch.read(wanted::contains);
      }
    }
    view.endLines();
  }

  /**
   * The tasks that are meant; all if none is named.
   *
   * @throws BerthException if the cluster does not have one that is named
   */
  static Set<TaskName> wanted(ClusterStatus cluster, List<String> named) {
    Set<TaskName> all = ClusterStates.gpuCounts(cluster).keySet();
    if (named.isEmpty()) {
      return all;
    }
    Set<TaskName> wanted = new LinkedHashSet<>();
    for (String text : named) {
      List<TaskName> meant =
          all.stream()
              .filter(task -> task.toString().equals(text) || task.type().equals(text))
              .toList();
      if (meant.isEmpty()) {
        throw new BerthException(
            Reason.NOT_FOUND, cluster.getName() + " has no task '" + text + "'" + has(all));
      }
      wanted.addAll(meant);
    }
    return wanted;
  }

  private static String has(Collection<TaskName> tasks) {
    if (tasks.isEmpty()) {
      return ": it has not begun yet";
    }
    if (tasks.size() <= MOST_TASKS) {
      return "; it has " + tasks.stream().map(TaskName::toString).collect(Collectors.joining(", "));
    }
    Map<String, Long> counts =
        tasks.stream()
            .collect(
                Collectors.groupingBy(TaskName::type, LinkedHashMap::new, Collectors.counting()));
    return "; it has "
        + counts.entrySet().stream()
            .map(type -> range(type.getKey(), type.getValue()))
            .collect(Collectors.joining(", "));
  }

  private static String range(String type, long count) {
    return type + ":0" + (count == 1 ? "" : " to " + type + ":" + (count - 1));
  }

  private static void note(String text) {
    Terminal.note(text);
  }
}
