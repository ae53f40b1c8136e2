package berth.cli;

import berth.client.call.RunClient;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.OptionalInt;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Turns signals to a command into the cancellation of what it runs: the first one asks the program
 * to end, the second kills it, the third gives up on both. Meanwhile the command goes on showing
 * what the program prints.
 */
final class CancelOnSignal {
  private static final int SIGNAL_BASE = 128;

  // The one after it ends this command, whatever becomes of the run.
  private static final int LAST = 2;

  /** What a command runs. */
  interface Running {
    /** Its name; empty while leaving is cancelling. */
    String name();

    /**
     * Asks it to end, or kills it.
     *
     * @throws BerthException CONFLICT if it has ended
     */
    void cancel(boolean force);
  }

  private final Running running;
  private final Consumer<String> notes;
  private int signals;
  private volatile int first;

  CancelOnSignal(Running running, Consumer<String> notes) {
    this.running = running;
    this.notes = notes;
  }

  static CancelOnSignal install(Running running, Consumer<String> notes) {
    CancelOnSignal cancel = new CancelOnSignal(running, notes);
    Signals.handle(cancel::signalled);
    return cancel;
  }

  /**
   * The same for one run.
   *
   * @param client the server of the run, once that is known
   */
  static CancelOnSignal install(Supplier<RunClient> client, RunView view) {
    Running run =
        new Running() {
          @Override
          public String name() {
            return view.runId();
          }

          @Override
          public void cancel(boolean force) {
            try {
              CancelCommand.cancel(client.get(), view.runId(), force);
            } catch (BerthException e) {
              // Its end came first, and this command closes its connection.
              if (!view.over()) {
                throw e;
              }
            }
          }
        };
    return install(run, view::note);
  }

  /** The exit code for what this command cancelled; empty if it did not. */
  OptionalInt exitCode() {
    return first == 0 ? OptionalInt.empty() : OptionalInt.of(SIGNAL_BASE + first);
  }

  void signalled(int signal) {
    int count;
    synchronized (this) {
      count = ++signals;
      if (count == 1) {
        first = signal;
      }
    }
    String name = running.name();
    // Before the run has a name, leaving is cancelling: the server ends what nobody listens to.
    if (name.isEmpty() || count > LAST) {
      System.exit(SIGNAL_BASE + signal);
    }
    boolean force = count == LAST;
    notes.accept(force ? "killing " + name : "cancelling; Ctrl-C again kills");
    try {
      running.cancel(force);
    } catch (BerthException e) {
      // One that has ended will say so.
      if (e.reason() != Reason.CONFLICT) {
        synchronized (this) {
          signals = LAST;
        }
        notes.accept("cannot cancel " + name + ": " + e.getMessage() + "; Ctrl-C leaves it");
      }
    }
  }
}
