package berth.cli;

import berth.client.RunClient;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.OptionalInt;
import java.util.function.Supplier;

/**
 * Turns signals to {@code berth run} into the cancellation of its run: the first one asks the
 * program to end, the second kills it, the third gives up on both. Meanwhile the command goes on
 * showing what the program prints.
 */
final class CancelOnSignal {
  private static final int SIGNAL_BASE = 128;

  // The one after it ends this command, whatever becomes of the run.
  private static final int LAST = 2;

  private final Supplier<RunClient> client;
  private final RunView view;
  private int signals;
  private volatile int first;

  private CancelOnSignal(Supplier<RunClient> client, RunView view) {
    this.client = client;
    this.view = view;
  }

  /**
   * @param client the server of the run, once that is known
   */
  static CancelOnSignal install(Supplier<RunClient> client, RunView view) {
    CancelOnSignal cancel = new CancelOnSignal(client, view);
    Signals.handle(cancel::signalled);
    return cancel;
  }

  /** The exit code for a run that this command cancelled; empty if it did not. */
  OptionalInt exitCode() {
    return first == 0 ? OptionalInt.empty() : OptionalInt.of(SIGNAL_BASE + first);
  }

  private void signalled(int signal) {
    int count;
    synchronized (this) {
      count = ++signals;
      if (count == 1) {
        first = signal;
      }
    }
    String runId = view.runId();
    // Before the run has a name, leaving is cancelling: the server ends what nobody listens to.
    if (runId.isEmpty() || count > LAST) {
      System.exit(SIGNAL_BASE + signal);
    }
    boolean force = count == LAST;
    view.note(force ? "killing " + runId : "cancelling; Ctrl-C again kills");
    try {
      CancelCommand.cancel(client.get(), runId, force);
    } catch (BerthException e) {
      // One that has ended will say so.
      if (e.reason() != Reason.CONFLICT) {
        synchronized (this) {
          signals = LAST;
        }
        view.note("cannot cancel " + runId + ": " + e.getMessage() + "; Ctrl-C leaves it");
      }
    }
  }
}
