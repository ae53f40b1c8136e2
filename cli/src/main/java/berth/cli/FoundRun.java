package berth.cli;

import berth.client.call.RunClient;
import berth.client.call.RunSearch;
import berth.client.call.RunSearch.Match;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Run;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.util.List;
import java.util.function.Consumer;

/**
 * A run that was found by what a person typed, and a connection to its server.
 *
 * @param run as it was then
 */
record FoundRun(RunClient client, Run run) implements AutoCloseable {
  /**
   * The run whose id is {@code text}, else the only one whose id begins with it, else the one of
   * that name: of several the one that has not ended, else the newest.
   *
   * @throws BerthException if there is none, or more than one, or a server that does not answer may
   *     have another
   */
  static FoundRun find(Servers servers, String text) {
    List<Server> all = servers.list(ServerFilter.getDefaultInstance());
    Match match;
    try {
      match = RunSearch.find(all, text, ServerOption.TIMEOUT);
    } catch (BerthException e) {
      if (e.reason() != Reason.NOT_FOUND) {
        throw e;
      }
      match =
          RunSearch.findByName(all, text, ServerOption.TIMEOUT, Terminal::note)
              .orElseThrow(
                  () ->
                      new BerthException(
                          e.reason(), e.getMessage() + "; 'berth runs --all' lists them", e));
    }
    return new FoundRun(RunClient.of(match.server()), match.run());
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
}
