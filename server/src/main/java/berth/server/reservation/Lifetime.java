package berth.server.reservation;

import berth.host.lock.KernelFiles;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;

/** How long a reservation lives, unless it is released before. */
public sealed interface Lifetime {
  /** By renewals, each for this time. Ends with this process. */
  record Renewals(Duration lease) implements Lifetime {
    public Renewals {
      checkLease(lease);
    }
  }

  /**
   * For a time. Goes on without this process.
   *
   * @param renewed whether its holder prolongs it for as long as it needs it
   */
  record Lasting(Duration duration, boolean renewed) implements Lifetime {
    public Lasting {
      checkLease(duration);
    }

    /** For a time that is meant as it is said. */
    public Lasting(Duration duration) {
      this(duration, false);
    }
  }

  /**
   * As long as a process of this machine. Goes on without this process.
   *
   * @param started see {@link KernelFiles#startOf}: not as long as a later one of the same id
   */
  record OfProcess(int pid, long started) implements Lifetime {
    /** As long as the process that has this id now. */
    public OfProcess(int pid) {
      this(pid, started(pid));
    }

    private static long started(int pid) {
      return KernelFiles.startOf(pid)
          .orElseThrow(
              () -> new BerthException(Reason.INVALID, "no process " + pid + " on this server"));
    }
  }

  /** As long as the caller listens. Ends with this process. */
  record OfStream() implements Lifetime {}

  /** As long as a run, see {@link RunHold}. Goes on without this process. */
  record OfRun(String runId) implements Lifetime {}

  /** Whether its holder prolongs it again and again, so that nobody can tell when it ends. */
  default boolean isRenewed() {
    return this instanceof Renewals || this instanceof Lasting lasting && lasting.renewed();
  }

  /** Refuses leases that are no time at all, or longer than a year. */
  static Duration checkLease(Duration lease) {
    if (lease.isNegative() || lease.isZero() || lease.compareTo(Duration.ofDays(366)) > 0) {
      throw new BerthException(
          Reason.INVALID,
          "a lease of " + lease.toSeconds() + " s asked; it must be above 0 and at most a year");
    }
    return lease;
  }
}
