package berth.cli;

import berth.client.call.ClusterClient;
import berth.client.call.FollowedCluster;
import berth.client.call.ManyServers;
import berth.client.call.ManyServers.Answer;
import berth.client.cluster.ClusterStates;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.ClusterStatus;
import berth.v1.ListClustersResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * A supervised cluster that was found by what a person typed, and a connection to the server that
 * supervises it.
 *
 * @param cluster as it was then, with no attempts of its tasks but the last
 */
record FoundCluster(ClusterClient client, ClusterStatus cluster) implements AutoCloseable {
  private record Match(Address server, ClusterStatus cluster) {
    boolean lives() {
      return !ClusterStates.hasEnded(cluster);
    }
  }

  /**
   * The cluster whose id or name is {@code text}, or the only one whose id begins with it. Of
   * several with that name the one that has not ended is meant, else the newest.
   *
   * @throws BerthException if there is none, or more than one, or a server that does not answer may
   *     have the one that is meant
   */
  static FoundCluster find(Servers servers, String text) {
    List<Answer<List<Match>>> answers =
        ManyServers.ask(
            servers.list(ServerFilter.getDefaultInstance()), address -> clusters(servers, address));
    Match found = choose(answers, text);
    return new FoundCluster(ClusterClient.of(found.server), found.cluster);
  }

  /**
   * What one server supervises.
   *
   * @throws BerthException also if it is too old to supervise anything, unless it is one of many
   */
  static ListClustersResponse list(Servers servers, Address address) {
    try (ClusterClient client = ClusterClient.of(address)) {
      return client.list(ServerOption.TIMEOUT);
    } catch (BerthException e) {
      if (e.reason() == Reason.UNSUPPORTED && servers.registry().isPresent()) {
        return ListClustersResponse.getDefaultInstance();
      }
      throw e;
    }
  }

  String id() {
    return cluster.getClusterId();
  }

  String name() {
    return cluster.getName();
  }

  /**
   * The cluster, as soon as its tasks are known: its supervisor may not have begun yet.
   *
   * @param notes is told if that takes time
   * @throws BerthException as {@link FollowedCluster#follow}
   */
  ClusterStatus begun(Consumer<String> notes) {
    if (hasBegun(cluster)) {
      return cluster;
    }
    notes.accept("waiting for the supervisor of " + name() + " to start");
    FollowedCluster.Watcher watcher =
        new FollowedCluster.Watcher() {
          @Override
          public void changed(ClusterStatus status) {}

          @Override
          public void lost(BerthException why) {
            notes.accept(why.getMessage() + "; trying again");
          }
        };
    return new FollowedCluster(client, watcher).follow(id(), FoundCluster::hasBegun);
  }

  private static boolean hasBegun(ClusterStatus status) {
    return status.getTasksCount() > 0 || ClusterStates.hasEnded(status);
  }

  @Override
  public void close() {
    client.close();
  }

  private static List<Match> clusters(Servers servers, Address address) {
    return list(servers, address).getClustersList().stream()
        .map(cluster -> new Match(address, cluster))
        .toList();
  }

  private static Match choose(List<Answer<List<Match>>> answers, String text) {
    List<Match> all = new ArrayList<>();
    answers.forEach(answer -> answer.value().ifPresent(all::addAll));
    String silent = ManyServers.silent(answers);
    List<Match> byId = those(all, cluster -> cluster.getClusterId().equals(text));
    if (!byId.isEmpty()) {
      return byId.get(0);
    }
    List<Match> byName = those(all, cluster -> cluster.getName().equals(text));
    if (!byName.isEmpty()) {
      return named(text, byName, silent);
    }
    List<Match> begun =
        those(all, cluster -> cluster.getClusterId().startsWith(text) && !text.isEmpty());
    if (begun.isEmpty()) {
      throw none(answers, text, silent);
    }
    if (begun.size() > 1) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "' matches several clusters: " + listed(begun));
    }
    if (!silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "'"
              + text
              + "' may also match another cluster than "
              + begun.get(0).cluster.getClusterId()
              + ": use the whole ID"
              + silent);
    }
    return begun.get(0);
  }

  private static Match named(String name, List<Match> matches, String silent) {
    List<Match> living = matches.stream().filter(Match::lives).toList();
    if (living.size() > 1) {
      throw new BerthException(
          Reason.INVALID,
          "several clusters are called '" + name + "': use one of " + listed(living));
    }
    if (living.size() == 1) {
      return living.get(0);
    }
    Match newest =
        matches.stream()
            .max(Comparator.comparing(m -> Messages.instant(m.cluster.getSubmittedAt())))
            .orElseThrow();
    if (!silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "all known clusters called '"
              + name
              + "' have ended, the last of them is "
              + newest.cluster.getClusterId()
              + ", but there may be another: use its ID"
              + silent);
    }
    return newest;
  }

  private static BerthException none(
      List<Answer<List<Match>>> answers, String text, String silent) {
    List<BerthException> failures = answers.stream().flatMap(a -> a.failure().stream()).toList();
    if (failures.size() == answers.size() && failures.size() == 1) {
      return failures.get(0);
    }
    int answered = answers.size() - failures.size();
    String where =
        answers.size() == 1
            ? "on " + who(answers.get(0).server())
            : answered == answers.size()
                ? "on any of the " + answered + " servers"
                : "on those servers that answer, " + answered + " of " + answers.size();
    return new BerthException(
        Reason.NOT_FOUND,
        "no cluster '" + text + "' " + where + "; 'berth clusters' lists them" + silent);
  }

  private static String who(Server server) {
    return Servers.name(server).isEmpty() ? server.getInfo().getAddress() : Servers.name(server);
  }

  private static String listed(List<Match> matches) {
    return matches.stream()
        .map(
            match ->
                match.cluster.getClusterId()
                    + " ("
                    + match.cluster.getName()
                    + " on "
                    + match.cluster.getServer()
                    + ")")
        .map(PlainText::clean)
        .collect(Collectors.joining(", "));
  }

  private static List<Match> those(List<Match> all, Predicate<ClusterStatus> wanted) {
    return all.stream().filter(match -> wanted.test(match.cluster)).toList();
  }
}
