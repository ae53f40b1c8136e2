package berth.client;

import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ExitReason;
import berth.v1.Reservation;
import berth.v1.RunAccepted;
import berth.v1.RunExited;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;

/**
 * How a program ended that ran.
 *
 * @param runId its run, as {@code berth runs} lists it
 * @param server the name of the server that ran it
 * @param end the way in which it ended
 * @param exitCode the program's own; 128 plus the signal if one ended it; 125 if nobody knows it,
 *     since its server was lost
 * @param why the same in words, for people; empty if there is nothing to say
 * @param wallTime from its start to its end
 * @param gpus the GPUs that it had, by ascending index
 * @param peakMemoryBytes the most memory that it used at once; empty if the kernel did not tell
 */
public record RunResult(
    String runId,
    String server,
    End end,
    int exitCode,
    String why,
    Duration wallTime,
    List<HeldGpu> gpus,
    OptionalLong peakMemoryBytes) {

  /** The ways in which a program can end. */
  public enum End {
    /** By itself, well or not: see the exit code. */
    FINISHED,
    /** Somebody cancelled it, or its caller or its reservation has gone. */
    CANCELLED,
    /** Its time was over. */
    TIME_LIMIT,
    /** It used more memory than it may, or the machine had none left. */
    OUT_OF_MEMORY,
    /** The machine or its container engine stopped under it. */
    SERVER_LOST,
    /** It did not use its GPUs for longer than it may. */
    IDLE,
    /** Its files took more of the disk than the server allows. */
    DISK_LIMIT
  }

  public RunResult {
    gpus = List.copyOf(gpus);
  }

  /** Whether it ended by itself, with the exit code 0. */
  public boolean succeeded() {
    return end == End.FINISHED && exitCode == 0;
  }

  static RunResult of(RunAccepted accepted, RunExited exited, Reservation reserved) {
    return new RunResult(
        accepted.getRunId(),
        accepted.getServer(),
        end(exited.getReason()),
        end(exited.getReason()) == End.SERVER_LOST ? ExitCode.BERTH_FAILED : exited.getExitCode(),
        exited.getMessage(),
        Messages.duration(exited.getWallTime()),
        HeldGpu.of(reserved),
        exited.hasPeakMemoryBytes()
            ? OptionalLong.of(exited.getPeakMemoryBytes())
            : OptionalLong.empty());
  }

  private static End end(ExitReason reason) {
    return switch (reason) {
      case EXIT_REASON_FINISHED -> End.FINISHED;
      case EXIT_REASON_CANCELLED -> End.CANCELLED;
      case EXIT_REASON_TIME_LIMIT -> End.TIME_LIMIT;
      case EXIT_REASON_OUT_OF_MEMORY -> End.OUT_OF_MEMORY;
      case EXIT_REASON_IDLE -> End.IDLE;
      case EXIT_REASON_DISK_LIMIT -> End.DISK_LIMIT;
      case EXIT_REASON_SERVER_LOST,
          EXIT_REASON_IMAGE_NOT_FOUND,
          EXIT_REASON_START_FAILED,
          EXIT_REASON_NOT_RESERVED,
          EXIT_REASON_UNSPECIFIED,
          UNRECOGNIZED ->
          End.SERVER_LOST;
    };
  }

  /** What to fail with in place of a result if the program never ran. */
  static BerthException neverRan(RunExited exited) {
    Reason reason =
        switch (exited.getReason()) {
          case EXIT_REASON_CANCELLED -> Reason.CANCELLED;
          case EXIT_REASON_IMAGE_NOT_FOUND -> Reason.NOT_FOUND;
          case EXIT_REASON_NOT_RESERVED -> Reason.EXHAUSTED;
          case EXIT_REASON_SERVER_LOST -> Reason.UNAVAILABLE;
          case EXIT_REASON_START_FAILED,
              EXIT_REASON_FINISHED,
              EXIT_REASON_TIME_LIMIT,
              EXIT_REASON_OUT_OF_MEMORY,
              EXIT_REASON_IDLE,
              EXIT_REASON_DISK_LIMIT,
              EXIT_REASON_UNSPECIFIED,
              UNRECOGNIZED ->
              Reason.CONFLICT;
        };
    return new BerthException(reason, exited.getMessage());
  }
}
