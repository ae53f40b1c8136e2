package berth.server.run;

import static berth.server.run.RequestedRun.invalid;

import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.RunSelection;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;

/** Lists runs in pages, from the newest to the oldest. A token is the number of the last run. */
final class RunPages {
  private static final int MOST = 1000;
  // Well below what a message may have, whatever people have put into their requests.
  private static final int MOST_BYTES = 4 << 20;

  private final String serverName;
  private final RunIndex runs;
  private final RunMessages messages;

  RunPages(String serverName, RunIndex runs, RunMessages messages) {
    this.serverName = serverName;
    this.runs = runs;
    this.messages = messages;
  }

  ListRunsResponse page(ListRunsRequest request) {
    int most = request.getPageSize() <= 0 ? MOST : Math.min(MOST, request.getPageSize());
    List<Run> matching = matching(request);
    Optional<Long> before = before(request.getPageToken());
    List<berth.v1.Run> page = new ArrayList<>();
    ListRunsResponse.Builder response =
        ListRunsResponse.newBuilder().setServer(serverName).setTotalCount(matching.size());
    int bytes = 0;
    Run last = null;
    for (Run run : matching) {
      if (before.isPresent() && run.number() >= before.get()) {
        continue;
      }
      if (page.size() >= most || bytes > MOST_BYTES) {
        response.setNextPageToken(Long.toString(last.number()));
        break;
      }
      berth.v1.Run message = messages.run(run);
      bytes += message.getSerializedSize();
      page.add(message);
      last = run;
    }
    if (request.getPageSize() == 0) {
      Collections.reverse(page);
    }
    return response.addAllRuns(page).build();
  }

  private List<Run> matching(ListRunsRequest request) {
    Predicate<Run> filter =
        switch (request.getSelection()) {
          case RUN_SELECTION_UNSPECIFIED -> run -> true;
          case RUN_SELECTION_UNFINISHED -> run -> !run.over();
          case RUN_SELECTION_ENDED -> Run::over;
          case UNRECOGNIZED -> throw invalid("unknown selection of runs");
        };
    List<Run> candidates;
    if (!request.getRequestId().isEmpty()) {
      candidates = runs.ofRequest(request.getRequestId()).map(List::of).orElse(List.of());
    } else if (!request.getIdPrefix().isEmpty()) {
      candidates = runs.beginningWith(request.getIdPrefix());
    } else if (request.getSelection() == RunSelection.RUN_SELECTION_UNFINISHED) {
      candidates = runs.unfinished();
    } else {
      candidates = runs.all();
    }
    return candidates.stream()
        .filter(filter)
        .filter(run -> run.id().startsWith(request.getIdPrefix()))
        .sorted(Comparator.comparingLong(Run::number).reversed())
        .toList();
  }

  private static Optional<Long> before(String token) {
    try {
      return token.isEmpty() ? Optional.empty() : Optional.of(Long.parseLong(token));
    } catch (NumberFormatException e) {
      throw invalid("'" + token + "' is not the token of a page of this server");
    }
  }
}
