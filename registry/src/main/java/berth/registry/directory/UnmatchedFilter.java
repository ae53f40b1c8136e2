package berth.registry.directory;

import berth.rpc.SimilarName;
import berth.v1.ServerFilter;
import berth.v1.Service;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/** Says which part of a filter no server passes, and what there is in its place. */
final class UnmatchedFilter {
  private static final int MOST_NAMED = 12;

  private final ServerFilter filter;
  private final List<Listed> servers;

  private UnmatchedFilter(ServerFilter filter, List<Listed> servers) {
    this.filter = filter;
    this.servers = servers;
  }

  /**
   * @param filter which none of {@code servers} passes
   * @param servers at least one
   */
  static String sentence(ServerFilter filter, Iterable<Listed> servers) {
    List<Listed> all = new ArrayList<>();
    servers.forEach(all::add);
    return new UnmatchedFilter(filter, all).sentence();
  }

  private String sentence() {
    List<Listed> named = those(servers, this::isNamed);
    if (named.isEmpty()) {
      return "no server is called " + named(filter.getNamesList()) + "; there are " + all();
    }
    List<Listed> labelled = those(named, this::hasLabels);
    if (labelled.isEmpty()) {
      return "no server" + byName() + " has " + labels() + otherValues();
    }
    if (those(labelled, this::hasService).isEmpty()) {
      return services(labelled);
    }
    String having = filter.getLabelsCount() == 0 ? "" : " with " + labels();
    return "no server" + byName() + having + service() + " has such GPUs; see 'berth gpus'";
  }

  private String services(List<Listed> labelled) {
    String service = filter.getService();
    String having = filter.getLabelsCount() == 0 ? "" : " with " + labels();
    String problem = "no server" + byName() + having + " has the service '" + service + "'";
    List<String> elsewhere = those(servers, this::hasService).stream().map(Listed::name).toList();
    if (!elsewhere.isEmpty()) {
      return problem + "; found on: " + named(elsewhere);
    }
    TreeSet<String> offered = new TreeSet<>();
    TreeSet<String> words = new TreeSet<>();
    for (Listed server : labelled) {
      for (Service known : server.server().getInfo().getServicesList()) {
        offered.add(known.getName());
        words.add(known.getName());
        words.addAll(known.getAliasesList());
      }
    }
    if (offered.isEmpty()) {
      return problem + ", nor any other";
    }
    return problem
        + SimilarName.to(service, words)
            .map(name -> "; did you mean '" + name + "'? Services: ")
            .orElse("; services: ")
        + named(offered);
  }

  private boolean isNamed(Listed server) {
    return filter.getNamesCount() == 0 || filter.getNamesList().contains(server.name());
  }

  private boolean hasLabels(Listed server) {
    return labelsOf(server).entrySet().containsAll(filter.getLabelsMap().entrySet());
  }

  private boolean hasService(Listed server) {
    return filter.getService().isEmpty()
        || server.services().contains(Listed.lower(filter.getService()));
  }

  private static Map<String, String> labelsOf(Listed server) {
    return server.server().getInfo().getLabelsMap();
  }

  private static List<Listed> those(List<Listed> servers, Predicate<Listed> test) {
    return servers.stream().filter(test).toList();
  }

  private String all() {
    return named(servers.stream().map(Listed::name).toList());
  }

  private String byName() {
    return filter.getNamesCount() == 0 ? "" : " among " + named(filter.getNamesList());
  }

  private String service() {
    return filter.getService().isEmpty() ? "" : " and the service '" + filter.getService() + "'";
  }

  private String labels() {
    return (filter.getLabelsCount() == 1 ? "the label " : "the labels ")
        + filter.getLabelsMap().entrySet().stream()
            .map(Map.Entry::toString)
            .sorted()
            .collect(Collectors.joining(", "));
  }

  private String otherValues() {
    if (filter.getLabelsCount() != 1) {
      return "; see 'berth servers'";
    }
    String key = filter.getLabelsMap().keySet().iterator().next();
    TreeSet<String> values = new TreeSet<>();
    servers.stream()
        .filter(server -> labelsOf(server).containsKey(key))
        .forEach(server -> values.add(key + "=" + labelsOf(server).get(key)));
    return values.isEmpty()
        ? ", nor any other label '" + key + "'; see 'berth servers'"
        : "; there are " + named(values);
  }

  private static String named(Collection<String> names) {
    String some = names.stream().limit(MOST_NAMED).collect(Collectors.joining(", "));
    return names.size() <= MOST_NAMED
        ? some
        : some + " and " + (names.size() - MOST_NAMED) + " more";
  }
}
