package berth.cli;

import berth.rpc.PlainText;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/** Draws the servers of a registry, or their services, for people. */
final class ServerTable {
  private static final List<String> SERVERS =
      List.of(
          "NAME",
          "ADDRESS",
          "GPUS",
          "MODEL",
          "MEMORY",
          "CPUS",
          "QUEUE",
          "RUNS",
          "SERVICES",
          "LABELS",
          "STATE");
  private static final List<String> SERVICES =
      List.of("SERVICE", "ALIASES", "SERVERS", "FREE GPUS");
  private static final int MOST_NAMED = 4;

  private ServerTable() {}

  static String servers(Collection<Server> servers) {
    List<List<String>> rows = new ArrayList<>();
    rows.add(SERVERS);
    servers.forEach(server -> rows.add(row(server)));
    return rows.size() == 1 ? "no servers\n" : Columns.render(rows);
  }

  /** Which servers have which service, by its name. */
  static String services(Collection<Server> servers) {
    Map<String, List<Server>> having = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    Map<String, TreeSet<String>> aliases = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    for (Server server : servers) {
      for (Service service : server.getInfo().getServicesList()) {
        having.computeIfAbsent(service.getName(), name -> new ArrayList<>()).add(server);
        aliases
            .computeIfAbsent(service.getName(), name -> new TreeSet<>())
            .addAll(service.getAliasesList());
      }
    }
    List<List<String>> rows = new ArrayList<>();
    rows.add(SERVICES);
    having.forEach(
        (name, those) ->
            rows.add(
                List.of(
                    clean(name),
                    clean(String.join(", ", aliases.get(name))),
                    clean(names(those)),
                    "" + those.stream().mapToLong(ServerTable::free).sum())));
    return rows.size() == 1 ? "no services\n" : Columns.render(rows);
  }

  /** How many GPUs of a server are free, in words. */
  static String freeGpus(Server server) {
    int all = server.getInfo().getGpusCount();
    return all == 0 ? "no GPUs" : free(server) + " of " + all + " GPUs free";
  }

  private static List<String> row(Server server) {
    ServerInfo info = server.getInfo();
    ServerStatus status = server.getStatus();
    return List.of(
        clean(info.getName()),
        clean(info.getAddress()),
        gpus(server),
        clean(models(info)),
        memory(server),
        info.getCpus() == 0 ? "" : "" + info.getCpus(),
        "" + status.getQueueLength(),
        "" + status.getRunCount(),
        clean(
            info.getServicesList().stream().map(Service::getName).collect(Collectors.joining(","))),
        clean(
            new TreeMap<>(info.getLabelsMap())
                .entrySet().stream().map(Object::toString).collect(Collectors.joining(","))),
        clean(state(status)));
  }

  private static String gpus(Server server) {
    long sick = count(server, GpuState.GPU_STATE_UNHEALTHY);
    return free(server)
        + "/"
        + server.getInfo().getGpusCount()
        + " free"
        + (sick == 0 ? "" : ", " + sick + " sick");
  }

  private static String memory(Server server) {
    long all = server.getInfo().getMemoryBytes() >> 30;
    long free = server.getStatus().getFreeMemoryBytes();
    if (all == 0) {
      return "";
    }
    return free == 0 ? all + " GiB" : (free >> 30) + "/" + all + " GiB free";
  }

  private static long free(Server server) {
    return count(server, GpuState.GPU_STATE_FREE);
  }

  private static long count(Server server, GpuState state) {
    return server.getStatus().getGpusList().stream()
        .map(GpuStatus::getState)
        .filter(state::equals)
        .count();
  }

  private static String models(ServerInfo info) {
    Map<String, Integer> models = new LinkedHashMap<>();
    for (GpuInfo gpu : info.getGpusList()) {
      models.merge(gpu.getModel().isEmpty() ? "?" : gpu.getModel(), 1, Integer::sum);
    }
    String text =
        models.entrySet().stream()
            .map(
                model ->
                    models.size() == 1 ? model.getKey() : model.getValue() + "x" + model.getKey())
            .collect(Collectors.joining(", "));
    boolean saysSo = text.toLowerCase(Locale.ROOT).contains("simulated");
    return info.getSimulated() && !saysSo ? text + " (simulated)" : text;
  }

  private static String state(ServerStatus status) {
    if (!status.getProblem().isEmpty()) {
      return status.getProblem();
    }
    if (status.getDraining()) {
      return "draining";
    }
    return status.getCanRun() ? "ok" : "cannot run anything now";
  }

  private static String names(List<Server> servers) {
    String named =
        servers.stream()
            .limit(MOST_NAMED)
            .map(server -> server.getInfo().getName())
            .collect(Collectors.joining(", "));
    return servers.size() <= MOST_NAMED ? named : servers.size() + ": " + named + ", ...";
  }

  private static String clean(String text) {
    return PlainText.clean(text);
  }
}
