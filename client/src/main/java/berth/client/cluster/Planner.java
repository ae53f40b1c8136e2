package berth.client.cluster;

import berth.client.spec.GpuChoice;
import berth.client.spec.GpuServer;
import berth.client.spec.RunSpec;
import berth.client.spec.ServerChoice;
import berth.client.spec.ServerGpu;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Decides which task goes where, from nothing but the request and what is known of the servers. The
 * tasks that fit the fewest servers are placed first, one after the other, each where it fits best:
 * those with GPUs where most GPUs are free, the others where most memory is free.
 */
public final class Planner {
  private static final int MOST_NAMED = 5;

  /** How servers are looked at. */
  private enum View {
    /** As they are. */
    NOW,
    /** As they would be if nobody used them. */
    EMPTY
  }

  private final ClusterRequest request;
  private final List<GpuServer> servers;

  private Planner(ClusterRequest request, List<GpuServer> servers) {
    this.request = request;
    this.servers = servers.stream().sorted(Comparator.comparing(GpuServer::name)).toList();
  }

  /**
   * Places all tasks.
   *
   * @throws BerthException EXHAUSTED if there is no room at present, INVALID if there never will be
   *     with these servers; the message names the task and what is missing
   */
  public static ClusterPlan place(ClusterRequest request, List<GpuServer> servers) {
    Planner planner = new Planner(request, servers);
    Optional<ClusterPlan> plan = planner.find(View.NOW);
    if (plan.isPresent()) {
      return plan.get();
    }
    boolean ever = planner.find(View.EMPTY).isPresent();
    throw planner.refusal(ever ? View.NOW : View.EMPTY);
  }

  /** The names of all servers that some task may use, now or later. */
  static Set<String> candidates(ClusterRequest request, List<GpuServer> servers) {
    Set<String> names = new TreeSet<>();
    for (GpuServer server : servers) {
      for (TaskGroup group : request.groups()) {
        if (new Room(server, View.EMPTY).obstacle(group.run()).isEmpty()) {
          names.add(server.name());
        }
      }
    }
    return names;
  }

  // What is spread may leave no room for what comes last, and the other way round.
  private Optional<ClusterPlan> find(View view) {
    Optional<ClusterPlan> wanted = attempt(view, request.layout()).plan();
    return wanted.isPresent()
        ? wanted
        : attempt(
                view,
                request.layout() == ClusterRequest.Layout.SPREAD
                    ? ClusterRequest.Layout.PACK
                    : ClusterRequest.Layout.SPREAD)
            .plan();
  }

  private Attempt attempt(View view, ClusterRequest.Layout layout) {
    return new Attempt(view, layout);
  }

  private BerthException refusal(View view) {
    Attempt failed = attempt(view, request.layout());
    TaskGroup group = request.group(failed.stuck);
    String others =
        failed.rooms.stream()
            .limit(MOST_NAMED)
            .map(room -> room.server.name() + " " + room.obstacle(group.run()).orElse("fits"))
            .collect(Collectors.joining("; "));
    int more = failed.rooms.size() - MOST_NAMED;
    return new BerthException(
        view == View.NOW ? Reason.EXHAUSTED : Reason.INVALID,
        "there is no "
            + (view == View.NOW ? "room for " : "server for ")
            + failed.stuck
            + ", which needs "
            + needs(group.run())
            + (failed.placed.isEmpty()
                ? ""
                : ", after " + failed.placed.size() + " of " + request.tasks().size() + " tasks")
            + ": "
            + (failed.rooms.isEmpty() ? "no server is registered" : others)
            + (more > 0 ? "; and " + more + " more" : ""));
  }

  private static String needs(RunSpec run) {
    List<String> needs = new ArrayList<>();
    GpuChoice gpus = run.resources().gpus();
    if (!gpus.isNone()) {
      String count =
          gpus.count() < 0 ? "all GPUs" : gpus.count() + (gpus.count() == 1 ? " GPU" : " GPUs");
      needs.add(
          count
              + (gpus.model().isEmpty() ? "" : " '" + gpus.model() + "'")
              + (gpus.minFreeMemoryBytes() == 0
                  ? ""
                  : " with " + size(gpus.minFreeMemoryBytes()) + " free each"));
    }
    if (run.limits().memoryBytes() > 0) {
      needs.add(size(run.limits().memoryBytes()) + " of memory");
    }
    if (run.limits().cpus() > 0) {
      needs.add(String.format(Locale.ROOT, "%s CPUs", trimmed(run.limits().cpus())));
    }
    if (!run.service().isEmpty()) {
      needs.add("the service " + run.service());
    }
    run.resources()
        .servers()
        .labels()
        .forEach((key, value) -> needs.add("the label " + key + "=" + value));
    return needs.isEmpty() ? "a server that runs code" : String.join(", ", needs);
  }

  private static String trimmed(double number) {
    return number == Math.rint(number) ? Long.toString((long) number) : Double.toString(number);
  }

  private static String size(long bytes) {
    return bytes >= 1L << 30
        ? trimmed(Math.floor(10.0 * bytes / (1L << 30)) / 10) + " GiB"
        : (bytes >> 20) + " MiB";
  }

  /** One way through all tasks, until the first that finds no place. */
  private final class Attempt {
    private final List<Room> rooms = new ArrayList<>();
    private final Map<TaskName, GpuServer> placed = new HashMap<>();
    private TaskName stuck;

    Attempt(View view, ClusterRequest.Layout layout) {
      servers.forEach(server -> rooms.add(new Room(server, view)));
      for (TaskGroup group : hardestFirst()) {
        for (TaskName task : group.tasks()) {
          Optional<Room> room =
              rooms.stream()
                  .filter(each -> each.obstacle(group.run()).isEmpty())
                  .min(best(group, layout));
          if (room.isEmpty()) {
            stuck = task;
            return;
          }
          room.get().take(group);
          placed.put(task, room.get().server);
        }
      }
    }

    Optional<ClusterPlan> plan() {
      if (stuck != null) {
        return Optional.empty();
      }
      Map<TaskName, GpuServer> ordered = new LinkedHashMap<>();
      request.tasks().forEach(task -> ordered.put(task, placed.get(task)));
      return Optional.of(new ClusterPlan(ordered));
    }

    private List<TaskGroup> hardestFirst() {
      Map<TaskGroup, Long> choices = new HashMap<>();
      for (TaskGroup group : request.groups()) {
        choices.put(
            group, rooms.stream().filter(room -> room.obstacle(group.run()).isEmpty()).count());
      }
      return request.groups().stream()
          .sorted(
              Comparator.comparing((TaskGroup group) -> group.gpuCount() == 0)
                  .thenComparing(choices::get)
                  .thenComparing(group -> group.gpuCount() < 0 ? 0 : 1)
                  .thenComparing(group -> -group.gpuCount())
                  .thenComparing(group -> -group.run().limits().memoryBytes()))
          .toList();
    }

    private Comparator<Room> best(TaskGroup group, ClusterRequest.Layout layout) {
      boolean spread = layout == ClusterRequest.Layout.SPREAD;
      Comparator<Room> comparator;
      if (group.gpuCount() != 0) {
        comparator =
            spread
                ? Comparator.comparingInt((Room room) -> room.tasks)
                    .thenComparingInt(room -> -room.matching(group.run()).size())
                : Comparator.comparingInt((Room room) -> -room.tasks)
                    .thenComparingInt(room -> room.matching(group.run()).size());
      } else {
        comparator =
            spread
                ? Comparator.comparingInt((Room room) -> room.tasksOf(group))
                    .thenComparingLong(room -> -room.memory)
                : Comparator.comparingInt((Room room) -> -room.tasks)
                    .thenComparingLong(room -> -room.memory);
      }
      return comparator.thenComparing(room -> room.server.name());
    }
  }

  /** What is left of a server while tasks are placed. */
  private static final class Room {
    // What a program has at least, so that many small ones do not pile up where memory is.
    private static final long USUAL_MEMORY = 1L << 30;

    private final GpuServer server;
    private final View view;
    private final List<ServerGpu> gpus;
    // What nobody has asked for, and what that leaves if programs take what they usually do.
    private long unclaimed;
    private long memory;
    private int tasks;
    private final Map<String, Integer> byType = new HashMap<>();

    Room(GpuServer server, View view) {
      this.server = server;
      this.view = view;
      this.gpus =
          new ArrayList<>(
              server.gpus().stream()
                  .filter(
                      gpu ->
                          view == View.NOW ? gpu.free() : gpu.state() != ServerGpu.State.UNHEALTHY)
                  .toList());
      this.unclaimed =
          view == View.NOW && server.freeMemoryBytes() > 0
              ? server.freeMemoryBytes()
              : server.memoryBytes();
      this.memory = unclaimed;
    }

    int tasksOf(TaskGroup group) {
      return byType.getOrDefault(group.type(), 0);
    }

    List<ServerGpu> matching(RunSpec run) {
      GpuChoice wanted = run.resources().gpus();
      return gpus.stream()
          .filter(
              gpu ->
                  gpu.model()
                          .toLowerCase(Locale.ROOT)
                          .contains(wanted.model().toLowerCase(Locale.ROOT))
                      && (view == View.NOW ? gpu.freeMemoryBytes() : gpu.memoryBytes())
                          >= wanted.minFreeMemoryBytes())
          .toList();
    }

    void take(TaskGroup group) {
      List<ServerGpu> matching = matching(group.run());
      gpus.removeAll(group.gpuCount() < 0 ? matching : matching.subList(0, group.gpuCount()));
      unclaimed -= group.run().limits().memoryBytes();
      memory -= Math.max(group.run().limits().memoryBytes(), USUAL_MEMORY);
      tasks++;
      byType.merge(group.type(), 1, Integer::sum);
    }

    /** Why a task cannot go here; empty if it can. */
    Optional<String> obstacle(RunSpec run) {
      ServerChoice allowed = run.resources().servers();
      if (!allowed.names().isEmpty() && !allowed.names().contains(server.name())) {
        return Optional.of("is not one of those named");
      }
      if (allowed.exclude().contains(server.name())) {
        return Optional.of("is excluded");
      }
      for (Map.Entry<String, String> label : allowed.labels().entrySet()) {
        if (!label.getValue().equals(server.labels().get(label.getKey()))) {
          return Optional.of("lacks the label " + label.getKey() + "=" + label.getValue());
        }
      }
      if (!run.service().isEmpty()
          && !server.services().contains(run.service().toLowerCase(Locale.ROOT))) {
        return Optional.of("has no service " + run.service());
      }
      if (run.limits().cpus() > server.cpus()) {
        return Optional.of("has " + server.cpus() + " CPUs");
      }
      if (view == View.NOW && server.draining()) {
        return Optional.of("drains");
      }
      if (view == View.NOW && !server.canRun()) {
        return Optional.of("cannot run code");
      }
      if (run.limits().memoryBytes() > unclaimed) {
        return Optional.of("has " + size(unclaimed) + " of memory left");
      }
      return gpuObstacle(run);
    }

    private Optional<String> gpuObstacle(RunSpec run) {
      int found = matching(run).size();
      int asked = run.resources().gpus().count();
      if (asked == 0 || found >= asked && found > 0 && (asked > 0 || allLeft())) {
        return Optional.empty();
      }
      return Optional.of(
          "has "
              + found
              + " of "
              + server.gpus().size()
              + (view == View.NOW ? " GPUs free" : " such GPUs")
              + (tasks > 0 ? " after " + tasks + (tasks == 1 ? " task" : " tasks") : ""));
    }

    // "All" of a server that is used in part would have to wait.
    private boolean allLeft() {
      return gpus.size()
          == server.gpus().stream().filter(gpu -> gpu.state() != ServerGpu.State.UNHEALTHY).count();
    }
  }
}
