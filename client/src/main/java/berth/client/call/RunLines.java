package berth.client.call;

import berth.v1.ExitReason;
import berth.v1.Reservation;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/**
 * What a run prints, line by line, and how it ends: the consumer of a {@link FollowedRun} for
 * programs that want no more than that. Not for several threads at once.
 */
public final class RunLines implements Consumer<RunEvent> {
  private static final int NEVER_RAN = 125;

  private final Lines out;
  private final Lines err;
  private Reservation reserved = Reservation.getDefaultInstance();
  private RunExited exited = RunExited.getDefaultInstance();

  /**
   * @param out gets the lines of standard output, without their ends, as UTF-8
   * @param err gets those of standard error
   */
  public RunLines(Consumer<String> out, Consumer<String> err) {
    this.out = lines(out);
    this.err = lines(err);
  }

  private static Lines lines(Consumer<String> consumer) {
    return new Lines((line, ended) -> consumer.accept(new String(line, StandardCharsets.UTF_8)));
  }

  @Override
  public void accept(RunEvent event) {
    switch (event.getEventCase()) {
      case RESERVED -> reserved = event.getReserved();
      case OUTPUT -> output(event.getOutput());
      case EXITED -> {
        exited = event.getExited();
        out.end();
        err.end();
      }
      default -> {}
    }
  }

  private void output(RunOutput output) {
    boolean toErr = output.getStream() == berth.v1.OutputStream.OUTPUT_STREAM_STDERR;
    (toErr ? err : out).add(output.getData().toByteArray());
  }

  /** The GPUs and ports of the run; empty before it has them, and if it asked for none. */
  public Reservation reserved() {
    return reserved;
  }

  /** How the run ended; without a reason while it has not. */
  public RunExited exited() {
    return exited;
  }

  /**
   * What a program that stands for the run should exit with: the exit code of the run's program;
   * 125 if there is none because it never ran.
   */
  public int exitCode() {
    boolean finished = exited.getReason() == ExitReason.EXIT_REASON_FINISHED;
    return finished || exited.getExitCode() != 0 ? exited.getExitCode() : NEVER_RAN;
  }
}
