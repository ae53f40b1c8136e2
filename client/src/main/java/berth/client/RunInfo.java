package berth.client;

import berth.rpc.Messages;
import berth.v1.Run;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * A run as its server knew it when it was asked.
 *
 * @param runId its name
 * @param server the name of its server
 * @param name what it is, for people; empty if nobody said
 * @param user who started it, as that caller said
 * @param command the script or command with its arguments, at most 1000 characters
 * @param acceptedAt when it was asked for, by the server's clock
 * @param gpus the GPUs that it has or had, by ascending index
 * @param why why it is still queued, or why it ended; empty if there is nothing to say
 * @param result how its program ended; empty if it has not, or never started
 */
public record RunInfo(
    String runId,
    String server,
    String name,
    String user,
    List<String> command,
    State state,
    Instant acceptedAt,
    List<HeldGpu> gpus,
    String why,
    Optional<RunResult> result) {

  /** Where a run is in its life. */
  public enum State {
    /** It waits for its GPUs. */
    QUEUED,
    /** It has its GPUs; image and files are being brought. */
    PREPARING,
    /** The program runs. */
    RUNNING,
    /** It is over. */
    ENDED
  }

  public RunInfo {
    command = List.copyOf(command);
    gpus = List.copyOf(gpus);
  }

  /** The same as what {@link Berth#attach} takes. */
  public DetachedRun reference() {
    return new DetachedRun(server, runId);
  }

  static RunInfo of(Run run) {
    RunCodeRequest request = run.getRequest();
    boolean ran = run.hasStarted() && run.hasExited();
    return new RunInfo(
        run.getRunId(),
        run.getServer(),
        request.getName(),
        request.getOwner().getUser(),
        command(request),
        state(run.getState()),
        Messages.instant(run.getAcceptedAt()),
        HeldGpu.of(run.getReservation()),
        run.hasExited() ? run.getExited().getMessage() : run.getWaitingBecause(),
        ran ? Optional.of(result(run)) : Optional.empty());
  }

  private static RunResult result(Run run) {
    RunAccepted accepted =
        RunAccepted.newBuilder().setRunId(run.getRunId()).setServer(run.getServer()).build();
    return RunResult.of(accepted, run.getExited(), run.getReservation());
  }

  private static List<String> command(RunCodeRequest request) {
    return request.hasSource()
        ? Stream.concat(
                Stream.of(request.getSource().getFileName()), request.getCommandList().stream())
            .toList()
        : request.getCommandList();
  }

  private static State state(RunState state) {
    return switch (state) {
      case RUN_STATE_QUEUED -> State.QUEUED;
      case RUN_STATE_PREPARING -> State.PREPARING;
      case RUN_STATE_RUNNING -> State.RUNNING;
      case RUN_STATE_ENDED, RUN_STATE_UNSPECIFIED, UNRECOGNIZED -> State.ENDED;
    };
  }
}
