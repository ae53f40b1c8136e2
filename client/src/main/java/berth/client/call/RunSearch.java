package berth.client.call;

import berth.client.call.ManyServers.Answer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ListRunsRequest;
import berth.v1.Run;
import berth.v1.RunSelection;
import berth.v1.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Finds a run by its ID, the beginning of that, or its name. Any thread may call. */
public final class RunSearch {
  // More are too many to name anyway.
  private static final int MOST_MATCHES = 20;

  /**
   * A run, and where it is.
   *
   * @param run as it was then
   */
  public record Match(Address server, Run run) {}

  /**
   * @param silent which servers did not answer, as the end of a message; empty if all did
   */
  private record Matches(List<Match> list, String silent) {}

  private RunSearch() {}

  /**
   * The run whose id is {@code text}, or the only one whose id begins with it.
   *
   * @param timeout for each server
   * @throws BerthException NOT_FOUND if there is none, INVALID if there is more than one,
   *     UNAVAILABLE if a server that does not answer may have another
   */
  public static Match find(List<Server> servers, String text, Duration timeout) {
    Matches matches =
        ask(whoMayHave(servers, text), client -> beginningWith(text, client, timeout));
    return only(text, matches.list, matches.silent);
  }

  /**
   * The run of that name: of several the one that has not ended, else the newest.
   *
   * @param timeout for each server
   * @param note is called with a sentence if an older run has the same name
   * @return empty if there is none
   * @throws BerthException INVALID if several have not ended, UNAVAILABLE if a server that does not
   *     answer may have a newer one
   */
  public static Optional<Match> findByName(
      List<Server> servers, String name, Duration timeout, Consumer<String> note) {
    // In this order: a run that ends between the two questions is in both answers, not in neither.
    Matches unfinished = named(servers, name, RunSelection.RUN_SELECTION_UNFINISHED, timeout);
    if (unfinished.list.size() > 1) {
      throw new BerthException(
          Reason.INVALID,
          "several unfinished runs have the name '"
              + name
              + "'; use an ID: "
              + ids(unfinished.list));
    }
    if (!unfinished.list.isEmpty()) {
      return Optional.of(unfinished.list.get(0));
    }
    Matches ended = named(servers, name, RunSelection.RUN_SELECTION_ENDED, timeout);
    Optional<Match> newest =
        ended.list.stream()
            .max(Comparator.comparing(match -> Messages.instant(match.run.getAcceptedAt())));
    if (newest.isPresent() && !ended.silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "there may be a newer run '"
              + name
              + "' than "
              + newest.get().run.getRunId()
              + ": use an ID"
              + ended.silent);
    }
    if (ended.list.size() > 1) {
      note.accept(
          ended.list.size()
              + " ended runs have the name '"
              + name
              + "'; taking the last, "
              + newest.get().run.getRunId());
    }
    return newest;
  }

  private static Matches named(
      List<Server> servers, String name, RunSelection selection, Duration timeout) {
    return name.isEmpty()
        ? new Matches(List.of(), "")
        : ask(
            servers,
            client ->
                client.listRuns(selection, timeout).stream()
                    .filter(run -> run.getRequest().getName().equals(name))
                    .toList());
  }

  private static Matches ask(List<Server> servers, Function<RunClient, List<Run>> question) {
    List<Answer<List<Match>>> answers =
        ManyServers.ask(servers, address -> matches(address, question));
    if (answers.size() == 1 && answers.get(0).failure().isPresent()) {
      throw answers.get(0).failure().get();
    }
    List<Match> matches = new ArrayList<>();
    answers.forEach(answer -> answer.value().ifPresent(matches::addAll));
    return new Matches(matches, ManyServers.silent(answers));
  }

  private static List<Match> matches(Address address, Function<RunClient, List<Run>> question) {
    try (RunClient client = RunClient.of(address)) {
      return question.apply(client).stream().map(run -> new Match(address, run)).toList();
    }
  }

  // The registry knows the runs that have not ended, or most of them.
  private static List<Server> whoMayHave(List<Server> all, String text) {
    List<Server> known =
        all.stream().filter(s -> s.getStatus().getRunIdsList().contains(text)).toList();
    return known.isEmpty() ? all : known;
  }

  private static List<Run> beginningWith(String text, RunClient client, Duration timeout) {
    if (text.isEmpty()) {
      return List.of();
    }
    ListRunsRequest wanted =
        ListRunsRequest.newBuilder().setIdPrefix(text).setPageSize(MOST_MATCHES).build();
    return client.listRuns(wanted, timeout).getRunsList();
  }

  private static Match only(String text, List<Match> matches, String silent) {
    for (Match match : matches) {
      if (match.run.getRunId().equals(text)) {
        return match;
      }
    }
    if (matches.isEmpty()) {
      throw new BerthException(Reason.NOT_FOUND, "there is no run '" + text + "'" + silent);
    }
    if (matches.size() > 1) {
      throw new BerthException(
          Reason.INVALID, "'" + text + "' matches several runs: " + ids(matches));
    }
    if (!silent.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "'"
              + text
              + "' may begin the ID of another run than "
              + matches.get(0).run.getRunId()
              + " too: use the whole ID"
              + silent);
    }
    return matches.get(0);
  }

  private static String ids(List<Match> matches) {
    return matches.stream()
        .limit(MOST_MATCHES)
        .map(match -> match.run.getRunId())
        .collect(Collectors.joining(", "));
  }
}
