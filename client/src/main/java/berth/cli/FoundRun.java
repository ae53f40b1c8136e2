package berth.cli;

import berth.client.ManyServers;
import berth.client.ManyServers.Answer;
import berth.client.RunClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ListRunsRequest;
import berth.v1.Run;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/**
 * A run that was found by what a person typed, and a connection to its server.
 *
 * @param run as it was then
 */
record FoundRun(RunClient client, Run run) implements AutoCloseable {
  // More are too many to name anyway.
  private static final int MOST_MATCHES = 20;

  private record Match(Address server, Run run) {}

  /**
   * The run whose id is {@code text}, or the only one whose id begins with it.
   *
   * @throws BerthException if there is none, or more than one, or a server that does not answer may
   *     have another
   */
  static FoundRun find(Servers servers, String text) {
    if (servers.addresses().size() == 1) {
      RunClient client = RunClient.of(servers.one());
      try {
        return new FoundRun(client, only(text, matches(text, servers.one(), client), ""));
      } catch (BerthException e) {
        client.close();
        throw e;
      }
    }
    List<Answer<List<Match>>> answers =
        ManyServers.ask(whoMayHave(servers, text), address -> matches(text, address));
    List<Match> matches = new ArrayList<>();
    answers.forEach(answer -> answer.value().ifPresent(matches::addAll));
    Run run = only(text, matches, Servers.silent(answers));
    Address address =
        matches.stream().filter(match -> match.run.equals(run)).findFirst().orElseThrow().server;
    return new FoundRun(RunClient.of(address), run);
  }

  /**
   * Finds each of these runs and does something with it, also after that failed for another.
   *
   * @throws BerthException the last failure; those before it have been printed
   */
  static void forEach(Servers servers, List<String> texts, Consumer<FoundRun> action) {
    BerthException failure = null;
    for (String text : texts) {
      try (FoundRun found = find(servers, text)) {
        action.accept(found);
      } catch (BerthException e) {
        if (failure != null) {
          Terminal.note(failure.getMessage());
        }
        failure = e;
      }
    }
    if (failure != null) {
      throw failure;
    }
  }

  String id() {
    return run.getRunId();
  }

  @Override
  public void close() {
    client.close();
  }

  // The registry knows the runs that have not ended, or most of them.
  private static List<Server> whoMayHave(Servers servers, String text) {
    List<Server> all = servers.list(ServerFilter.getDefaultInstance());
    List<Server> known =
        all.stream().filter(s -> s.getStatus().getRunIdsList().contains(text)).toList();
    return known.isEmpty() ? all : known;
  }

  private static List<Match> matches(String text, Address address) {
    try (RunClient client = RunClient.of(address)) {
      return matches(text, address, client);
    }
  }

  private static List<Match> matches(String text, Address address, RunClient client) {
    if (text.isEmpty()) {
      return List.of();
    }
    ListRunsRequest wanted =
        ListRunsRequest.newBuilder().setIdPrefix(text).setPageSize(MOST_MATCHES).build();
    return client.listRuns(wanted, ServerOption.TIMEOUT).getRunsList().stream()
        .map(run -> new Match(address, run))
        .toList();
  }

  private static Run only(String text, List<Match> matches, String silent) {
    for (Match match : matches) {
      if (match.run.getRunId().equals(text)) {
        return match.run;
      }
    }
    if (matches.size() == 1) {
      if (!silent.isEmpty()) {
        throw new BerthException(
            Reason.UNAVAILABLE,
            "'"
                + text
                + "' may begin the name of another run than "
                + matches.get(0).run.getRunId()
                + " too: say the whole name"
                + silent);
      }
      return matches.get(0).run;
    }
    throw matches.isEmpty()
        ? new BerthException(
            Reason.NOT_FOUND,
            "there is no run '" + text + "'; 'berth runs --all' lists them" + silent)
        : new BerthException(
            Reason.INVALID,
            "'"
                + text
                + "' begins the names of several runs: "
                + String.join(", ", matches.stream().map(m -> m.run.getRunId()).toList()));
  }
}
