package berth.cli;

import berth.client.ManyServers;
import berth.client.ManyServers.Answer;
import berth.client.RunClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ListRunsRequest;
import berth.v1.Run;
import berth.v1.RunSelection;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;

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
   * @param silent which servers did not answer, as the end of a message; empty if all did
   */
  private record Matches(List<Match> list, String silent) {}

  private interface Question {
    List<Run> ask(RunClient client);
  }

  /**
   * The run whose id is {@code text}, else the only one whose id begins with it, else the one of
   * that name: of several the one that has not ended, else the newest.
   *
   * @throws BerthException if there is none, or more than one, or a server that does not answer may
   *     have another
   */
  static FoundRun find(Servers servers, String text) {
    Matches byId = ask(servers, text, client -> beginningWith(text, client));
    Match match = byId.list.isEmpty() ? named(servers, text, byId) : only(text, byId);
    return new FoundRun(RunClient.of(match.server), match.run);
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

  private static Matches ask(Servers servers, String text, Question question) {
    if (servers.addresses().size() == 1) {
      return new Matches(matches(servers.one(), question), "");
    }
    List<Answer<List<Match>>> answers =
        ManyServers.ask(whoMayHave(servers, text), address -> matches(address, question));
    List<Match> matches = new ArrayList<>();
    answers.forEach(answer -> answer.value().ifPresent(matches::addAll));
    return new Matches(matches, Servers.silent(answers));
  }

  private static List<Match> matches(Address address, Question question) {
    try (RunClient client = RunClient.of(address)) {
      return question.ask(client).stream().map(run -> new Match(address, run)).toList();
    }
  }

  private static List<Run> beginningWith(String text, RunClient client) {
    if (text.isEmpty()) {
      return List.of();
    }
    ListRunsRequest wanted =
        ListRunsRequest.newBuilder().setIdPrefix(text).setPageSize(MOST_MATCHES).build();
    return client.listRuns(wanted, ServerOption.TIMEOUT).getRunsList();
  }

  private static Match only(String text, Matches matches) {
    for (Match match : matches.list) {
      if (match.run.getRunId().equals(text)) {
        return match;
      }
    }
    if (matches.list.size() > 1) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "' begins the IDs of several runs: " + ids(matches.list));
    }
    Match match = matches.list.get(0);
    if (!matches.silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "'"
              + text
              + "' may begin the ID of another run than "
              + match.run.getRunId()
              + " too: use the whole ID"
              + matches.silent);
    }
    return match;
  }

  private static Match named(Servers servers, String name, Matches byId) {
    // In this order: a run that ends between the two questions is in both answers, not in neither.
    Matches unfinished = named(servers, name, RunSelection.RUN_SELECTION_UNFINISHED);
    if (unfinished.list.size() > 1) {
      throw new BerthException(
          Reason.INVALID,
          "several unfinished runs have the name '"
              + name
              + "'; use an ID: "
              + ids(unfinished.list));
    }
    if (!unfinished.list.isEmpty()) {
      return unfinished.list.get(0);
    }
    Matches ended = named(servers, name, RunSelection.RUN_SELECTION_ENDED);
    Match newest =
        ended.list.stream()
            .max(Comparator.comparing(match -> Messages.instant(match.run.getAcceptedAt())))
            .orElseThrow(
                () ->
                    new BerthException(
                        Reason.NOT_FOUND,
                        "there is no run '"
                            + name
                            + "'; 'berth runs --all' lists them"
                            + byId.silent));
    if (!ended.silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "there may be a newer run '"
              + name
              + "' than "
              + newest.run.getRunId()
              + ": use an ID"
              + ended.silent);
    }
    if (ended.list.size() > 1) {
      Terminal.note(
          ended.list.size()
              + " ended runs have the name '"
              + name
              + "'; taking the last, "
              + newest.run.getRunId());
    }
    return newest;
  }

  private static Matches named(Servers servers, String name, RunSelection selection) {
    if (name.isEmpty()) {
      return new Matches(List.of(), "");
    }
    return ask(
        servers,
        name,
        client ->
            client.listRuns(selection, ServerOption.TIMEOUT).stream()
                .filter(run -> run.getRequest().getName().equals(name))
                .toList());
  }

  private static String ids(List<Match> matches) {
    return matches.stream()
        .limit(MOST_MATCHES)
        .map(match -> match.run.getRunId())
        .collect(Collectors.joining(", "));
  }
}
