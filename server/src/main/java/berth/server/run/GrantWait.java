package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Lifetime;
import berth.server.reservation.Reservation;
import berth.server.reservation.ReservationListener;
import berth.server.reservation.ReservationRequest;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One run's place in the queue for GPUs, from {@link #join} until GPUs are granted or refused. Its
 * waiter is told once what came of it, and without a lock. Any thread may call.
 */
final class GrantWait implements ReservationListener {
  private static final Logger log = LoggerFactory.getLogger(GrantWait.class);

  /**
   * What came of the wait: GPUs, or the reason why there are none.
   *
   * @param nanos how long it took
   */
  record Served(Optional<Reservation> reservation, Optional<BerthException> refused, long nanos) {
    static final Served NOT_YET = new Served(Optional.empty(), Optional.empty(), 0);

    static Served refused(BerthException why) {
      return new Served(Optional.empty(), Optional.of(why), 0);
    }
  }

  /** Must not block. */
  interface Waiter {
    void queued(int ahead, String because);

    void served(Served served);
  }

  private final RunContext context;
  private final String runId;
  private final RunTasks tasks;
  private final Waiter waiter;
  private final long joined = System.nanoTime();
  private final AtomicBoolean settled = new AtomicBoolean();

  GrantWait(RunContext context, String runId, RunTasks tasks, Waiter waiter) {
    this.context = context;
    this.runId = runId;
    this.tasks = tasks;
    this.waiter = waiter;
  }

  /**
   * Takes a place in the queue.
   *
   * @return gives the place up for the reason that it is given, unless the wait is over
   */
  Consumer<BerthException> join(RequestedRun spec) {
    try {
      Runnable leave =
          context
              .reservations()
              .reserve(
                  new ReservationRequest(
                      spec.gpus(),
                      spec.ports(),
                      spec.waitAtMost(),
                      new Lifetime.OfRun(runId),
                      spec.owner(),
                      spec.name(),
                      ""),
                  this);
      return why -> {
        if (settle()) {
          leave.run();
          waiter.served(Served.refused(why));
        }
      };
    } catch (BerthException e) {
      failed(e);
    } catch (RuntimeException | Error e) {
      log.error("{}: cannot queue for GPUs", runId, e);
      failed(new BerthException(Reason.INTERNAL, "unexpected failure of the server", e));
    }
    return why -> {};
  }

  // Whether it is this caller who decides what becomes of the place.
  private boolean settle() {
    return settled.compareAndSet(false, true);
  }

  @Override
  public void queued(int before, String because) {
    waiter.queued(before, because);
  }

  @Override
  public void granted(Reservation got) {
    if (settle()) {
      waiter.served(new Served(Optional.of(got), Optional.empty(), System.nanoTime() - joined));
    } else {
      // It has been stopped in the same moment.
      tasks.soon(() -> context.reservations().hold(got.id(), runId, () -> {}).release());
    }
  }

  @Override
  public void failed(BerthException why) {
    if (settle()) {
      waiter.served(Served.refused(why));
    }
  }

  @Override
  public void ended() {}
}
