package berth.cli;

import berth.rpc.ExitCode;
import berth.v1.ExitReason;
import berth.v1.RunExited;
import java.util.OptionalInt;

/** What the end of a run means to whoever started it. */
final class RunEnd {
  private RunEnd() {}

  /**
   * The exit code of the command that showed the run.
   *
   * @param cancelledHere what a run has that this command cancelled
   */
  static int exitCode(RunExited exited, OptionalInt cancelledHere) {
    int own = exited.getExitCode();
    return switch (exited.getReason()) {
      case EXIT_REASON_FINISHED -> own;
      case EXIT_REASON_TIME_LIMIT, EXIT_REASON_IDLE -> ExitCode.TIME_LIMIT;
      case EXIT_REASON_CANCELLED -> cancelledHere.orElse(orFailed(own));
      // A program that is not there is 127, as in a shell, if the server could tell.
      case EXIT_REASON_OUT_OF_MEMORY, EXIT_REASON_DISK_LIMIT, EXIT_REASON_START_FAILED ->
          orFailed(own);
      case EXIT_REASON_IMAGE_NOT_FOUND,
          EXIT_REASON_SERVER_LOST,
          EXIT_REASON_NOT_RESERVED,
          EXIT_REASON_UNSPECIFIED,
          UNRECOGNIZED ->
          ExitCode.BERTH_FAILED;
    };
  }

  private static int orFailed(int exitCode) {
    return exitCode == 0 ? ExitCode.BERTH_FAILED : exitCode;
  }

  static boolean wentWell(RunExited exited) {
    return exited.getReason() == ExitReason.EXIT_REASON_FINISHED && exited.getExitCode() == 0;
  }

  /** The reason in a few words, for a table. */
  static String words(ExitReason reason) {
    return switch (reason) {
      case EXIT_REASON_FINISHED -> "finished";
      case EXIT_REASON_CANCELLED -> "cancelled";
      case EXIT_REASON_TIME_LIMIT -> "time limit";
      case EXIT_REASON_OUT_OF_MEMORY -> "out of memory";
      case EXIT_REASON_IMAGE_NOT_FOUND -> "no such image";
      case EXIT_REASON_START_FAILED -> "could not start";
      case EXIT_REASON_SERVER_LOST -> "server lost";
      case EXIT_REASON_NOT_RESERVED -> "got no GPUs";
      case EXIT_REASON_IDLE -> "idle";
      case EXIT_REASON_DISK_LIMIT -> "disk limit";
      case EXIT_REASON_UNSPECIFIED, UNRECOGNIZED -> "ended";
    };
  }
}
