package berth.command;

/**
 * The exit codes that Berth gives itself. A program's own exit code is passed through unchanged.
 */
public final class ExitCode {
  public static final int OK = 0;

  /** Berth itself failed: nobody answered, a wrong option, nothing free. */
  public static final int BERTH_FAILED = 125;

  private ExitCode() {}
}
