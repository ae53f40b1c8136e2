package berth.cli;

import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.v1.GpuRequest;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunExited;
import berth.v1.RunState;
import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Draws the runs of a server for people, one line each. */
final class RunTable {
  private static final List<String> HEADING =
      List.of("RUN", "STATE", "GPUS", "OWNER", "SINCE", "TIME", "NAME");

  /** How many of those that have ended are shown unless all are asked for. */
  static final int LAST_ENDED = 5;

  private static final int MAX_NAME = 60;

  private final TimeText times;

  RunTable(TimeText times) {
    this.times = times;
  }

  /** All runs, or those that have not ended and the last few that have. */
  String render(ListRunsResponse response, boolean all) {
    long ended = response.getRunsList().stream().filter(RunTable::hasEnded).count();
    long toHide = all ? 0 : Math.max(0, ended - LAST_ENDED);
    long hidden = toHide + Math.max(0, response.getTotalCount() - response.getRunsCount());
    List<List<String>> rows = new ArrayList<>();
    rows.add(HEADING);
    for (Run run : response.getRunsList()) {
      if (hasEnded(run) && toHide > 0) {
        toHide--;
      } else {
        rows.add(row(run));
      }
    }
    String server = clean(response.getServer());
    if (rows.size() == 1) {
      return server + ": no runs\n";
    }
    return server
        + (hidden == 0 ? "" : ", without " + hidden + " that ended earlier (shown by --all)")
        + "\n"
        + Columns.render(rows);
  }

  private List<String> row(Run run) {
    RunCodeRequest request = run.getRequest();
    boolean started = run.hasStarted();
    Timestamp since = started ? run.getStarted().getStartedAt() : run.getAcceptedAt();
    Duration time =
        run.hasExited() ? Messages.duration(run.getExited().getWallTime()) : times.since(since);
    return List.of(
        clean(run.getRunId()),
        state(run),
        gpus(run),
        clean(request.getOwner().getUser() + "@" + request.getOwner().getHost()),
        times.time(since),
        TimeText.span(time),
        clean(name(request)));
  }

  private static boolean hasEnded(Run run) {
    return run.getState() == RunState.RUN_STATE_ENDED;
  }

  private static String because(Run run) {
    return run.getWaitingBecause().isEmpty() ? "" : ": " + clean(run.getWaitingBecause());
  }

  private static String state(Run run) {
    return switch (run.getState()) {
      case RUN_STATE_QUEUED ->
          (run.getAhead() == 0 ? "next in line" : "waiting behind " + run.getAhead())
              + because(run);
      case RUN_STATE_PREPARING -> "preparing" + because(run);
      case RUN_STATE_RUNNING -> "running";
      case RUN_STATE_ENDED -> end(run.getExited());
      case RUN_STATE_UNSPECIFIED, UNRECOGNIZED -> "?";
    };
  }

  private static String end(RunExited exited) {
    String words = RunEnd.words(exited.getReason());
    return switch (exited.getReason()) {
      case EXIT_REASON_FINISHED -> "exit " + exited.getExitCode();
      default -> exited.getExitCode() == 0 ? words : words + ", exit " + exited.getExitCode();
    };
  }

  private static String gpus(Run run) {
    if (run.hasReservation()) {
      return ReservationTable.indices(run.getReservation());
    }
    if (!run.getRequest().hasGpus() || hasEnded(run)) {
      return "";
    }
    GpuRequest wanted = run.getRequest().getGpus();
    return wanted.hasExactly()
        ? "wants " + clean(String.join(",", wanted.getExactly().getIdsList()))
        : "wants " + (wanted.getCount() < 0 ? "all" : wanted.getCount());
  }

  private static String name(RunCodeRequest request) {
    if (!request.getName().isEmpty()) {
      return request.getName();
    }
    List<String> words = new ArrayList<>();
    if (request.hasSource()) {
      words.add(request.getSource().getFileName());
    }
    words.addAll(request.getCommandList());
    if (words.isEmpty()) {
      words.add(request.hasService() ? request.getService() : request.getImage());
    }
    String text = String.join(" ", words);
    return text.length() <= MAX_NAME ? text : text.substring(0, MAX_NAME) + "...";
  }

  private static String clean(String text) {
    return PlainText.clean(text);
  }
}
