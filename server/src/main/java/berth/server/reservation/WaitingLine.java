package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The requests of this process that wait for GPUs. One thread serves them in the order in which
 * they came; the order among the processes of the machine is that of their tickets.
 *
 * <p>Guarded by the lock of {@link Reservations}: except for {@link #start} and {@link #awaitEnd},
 * call with it.
 */
final class WaitingLine {
  private static final Logger log = LoggerFactory.getLogger(WaitingLine.class);

  // Those before a request that does not want to wait may just be on their way through.
  private static final Duration PASSING = Duration.ofMillis(250);

  /** Makes a reservation of what a request has got. Called without the lock. */
  interface Granter {
    void grant(Pending pending, HeldGpus taken);
  }

  /** A request in the line, and what became of it. */
  static final class Pending {
    private final ReservationRequest request;
    private final Claim claim;
    private final Instant since;
    private final long sinceNanos;
    private ReservationListener listener;
    private int told;
    private String granted;
    private boolean gone;

    private Pending(
        ReservationRequest request,
        Claim claim,
        ReservationListener listener,
        Instant since,
        long sinceNanos) {
      this.request = request;
      this.claim = claim;
      this.listener = listener;
      this.since = since;
      this.sinceNanos = sinceNanos;
    }

    ReservationRequest request() {
      return request;
    }

    ReservationListener listener() {
      return listener;
    }

    /** When it came, on the machine's monotonic clock. */
    long sinceNanos() {
      return sinceNanos;
    }

    /** Whether the caller left before it was served. */
    boolean gone() {
      return gone;
    }

    /** The reservation it got, if it did. */
    Optional<String> granted() {
      return Optional.ofNullable(granted);
    }
  }

  private final Object lock;
  private final LockProtocol protocol;
  private final ScheduledExecutorService timer;
  private final Granter granter;
  private final Thread thread = new Thread(this::serveAll, "reservation-claimer");
  private final List<Pending> line = new ArrayList<>();
  private boolean closed;

  WaitingLine(Object lock, LockProtocol protocol, ScheduledExecutorService timer, Granter granter) {
    this.lock = lock;
    this.protocol = protocol;
    this.timer = timer;
    this.granter = granter;
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Takes a place at the end. */
  Pending join(
      ReservationRequest request, ReservationListener listener, Instant now, long nowNanos) {
    Claim claim = new Claim(protocol, request.gpus().orElseThrow());
    Pending pending = new Pending(request, claim, listener, now, nowNanos);
    line.add(pending);
    lock.notifyAll();
    limitWait(pending);
    tellPositions();
    return pending;
  }

  /** Takes over the place of an earlier call for the same request, if there is one. */
  Optional<Pending> rejoin(String requestId, ReservationListener listener) {
    Optional<Pending> same =
        line.stream()
            .filter(p -> !requestId.isEmpty() && p.request.requestId().equals(requestId))
            .filter(p -> !p.gone && p.granted == null)
            .findFirst();
    same.ifPresent(
        pending -> {
          pending.listener.failed(
              new BerthException(Reason.CANCELLED, "the same request was made again"));
          pending.listener = listener;
          pending.told = 0;
          tellPositions();
        });
    return same;
  }

  /** Notes that a request has been served. */
  void served(Pending pending, String reservationId) {
    line.remove(pending);
    pending.granted = reservationId;
  }

  /** Leaves the line, because the caller has gone. */
  void leave(Pending pending) {
    pending.gone = true;
    pending.claim.cancel(new BerthException(Reason.CANCELLED, "the caller has gone"));
    dropUnlessBeingServed(pending);
  }

  void refuseAll(BerthException why) {
    for (Pending pending : List.copyOf(line)) {
      refuse(pending, why);
    }
  }

  List<Overview.Waiting> overview() {
    return line.stream().map(p -> new Overview.Waiting(p.request, p.since, p.sinceNanos)).toList();
  }

  /** Ends the line; {@link #refuseAll} comes first. */
  void close() {
    closed = true;
    lock.notifyAll();
  }

  /** Waits until nobody is being served any more. */
  void awaitEnd(Duration atMost) throws InterruptedException {
    thread.join(atMost.toMillis());
  }

  private void serveAll() {
    try {
      while (true) {
        Pending next;
        synchronized (lock) {
          while (line.isEmpty() && !closed) {
            lock.wait();
          }
          if (line.isEmpty()) {
            return;
          }
          next = line.get(0);
        }
        serve(next);
      }
    } catch (InterruptedException e) {
      // The process ends.
    }
  }

  private void serve(Pending pending) throws InterruptedException {
    BerthException failure = null;
    try {
      granter.grant(pending, pending.claim.run(pending.request.waits(), () -> hasToWait(pending)));
    } catch (BerthException e) {
      failure = e;
    } catch (RuntimeException e) {
      log.error("reserving failed unexpectedly", e);
      failure = new BerthException(Reason.INTERNAL, "reserving failed unexpectedly", e);
    }
    synchronized (lock) {
      line.remove(pending);
      if (failure != null && !pending.gone) {
        pending.listener.failed(failure);
      }
      tellPositions();
    }
  }

  private void hasToWait(Pending pending) {
    synchronized (lock) {
      if (!pending.gone) {
        pending.listener.queued(0);
      }
    }
  }

  // The first of the line is being served, or about to be, and told of its refusal by whoever
  // serves it.
  private void refuse(Pending pending, BerthException why) {
    pending.claim.cancel(why);
    if (dropUnlessBeingServed(pending)) {
      pending.listener.failed(why);
    }
  }

  private boolean dropUnlessBeingServed(Pending pending) {
    if (line.indexOf(pending) <= 0) {
      return false;
    }
    line.remove(pending);
    pending.claim.close();
    tellPositions();
    return true;
  }

  private void limitWait(Pending pending) {
    ReservationRequest request = pending.request;
    if (request.waitAtMost().isPresent()) {
      Duration limit = request.waits() ? request.waitAtMost().get() : PASSING;
      timer.schedule(() -> waitedEnough(pending), limit.toNanos(), TimeUnit.NANOSECONDS);
    }
  }

  private void waitedEnough(Pending pending) {
    synchronized (lock) {
      if (pending.granted != null || !line.contains(pending)) {
        return;
      }
      ReservationRequest request = pending.request;
      if (!request.waits() && line.get(0) == pending && !pending.claim.hasToQueue()) {
        // It is only slow, as on a busy machine, and needs no more than time.
        limitWait(pending);
        return;
      }
      GpuWish wish = request.gpus().orElseThrow();
      String asked = wish.phrase(wish.needed(protocol.gpus().newest().gpus().size())) + " asked, ";
      int ahead = line.indexOf(pending);
      refuse(
          pending,
          request.waits()
              ? new BerthException(
                  Reason.TIMED_OUT,
                  asked
                      + "not granted within "
                      + request.waitAtMost().get().toMillis() / 1000.0
                      + " s"
                      + (ahead > 0 ? "; " + ahead + " requests are still before it" : ""))
              : new BerthException(Reason.EXHAUSTED, asked + "but others are waiting already"));
    }
  }

  // Requests of other processes that came between ours are not counted again for each of them.
  private void tellPositions() {
    if (line.isEmpty()) {
      return;
    }
    int ahead = line.get(0).claim.ahead();
    for (Pending pending : line) {
      if (ahead > 0 && ahead != pending.told && !pending.gone) {
        pending.told = ahead;
        pending.listener.queued(ahead);
      }
      ahead++;
    }
  }
}
