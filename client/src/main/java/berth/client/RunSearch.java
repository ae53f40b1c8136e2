package berth.client;

import berth.client.ManyServers.Answer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ListRunsRequest;
import berth.v1.Run;
import berth.v1.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Finds a run by its name, or the beginning of that. Any thread may call. */
public final class RunSearch {
  // More are too many to name anyway.
  private static final int MOST_MATCHES = 20;

  /**
   * A run, and where it is.
   *
   * @param run as it was then
   */
  public record Match(Address server, Run run) {}

  private RunSearch() {}

  /**
   * The run whose id is {@code text}, or the only one whose id begins with it.
   *
   * @param timeout for each server
   * @throws BerthException NOT_FOUND if there is none, INVALID if there is more than one,
   *     UNAVAILABLE if a server that does not answer may have another
   */
  public static Match find(List<Server> servers, String text, Duration timeout) {
    List<Answer<List<Match>>> answers =
        ManyServers.ask(whoMayHave(servers, text), address -> matches(text, address, timeout));
    if (answers.size() == 1 && answers.get(0).failure().isPresent()) {
      throw answers.get(0).failure().get();
    }
    List<Match> matches = new ArrayList<>();
    answers.forEach(answer -> answer.value().ifPresent(matches::addAll));
    return only(text, matches, ManyServers.silent(answers));
  }

  // The registry knows the runs that have not ended, or most of them.
  private static List<Server> whoMayHave(List<Server> all, String text) {
    List<Server> known =
        all.stream().filter(s -> s.getStatus().getRunIdsList().contains(text)).toList();
    return known.isEmpty() ? all : known;
  }

  private static List<Match> matches(String text, Address address, Duration timeout) {
    if (text.isEmpty()) {
      return List.of();
    }
    ListRunsRequest wanted =
        ListRunsRequest.newBuilder().setIdPrefix(text).setPageSize(MOST_MATCHES).build();
    try (RunClient client = RunClient.of(address)) {
      return client.listRuns(wanted, timeout).getRunsList().stream()
          .map(run -> new Match(address, run))
          .toList();
    }
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
          Reason.INVALID,
          "'"
              + text
              + "' begins the names of several runs: "
              + String.join(", ", matches.stream().map(m -> m.run.getRunId()).toList()));
    }
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
    return matches.get(0);
  }
}
