package berth.rpc;

/**
 * The exit codes that Berth gives itself. A program's own exit code is passed through unchanged.
 */
public final class ExitCode {
  public static final int OK = 0;

  /** The program was ended because its time was over. */
  public static final int TIME_LIMIT = 124;

  /** Berth itself failed: nobody answered, a wrong option, nothing free. */
  public static final int BERTH_FAILED = 125;

  private ExitCode() {}
}
