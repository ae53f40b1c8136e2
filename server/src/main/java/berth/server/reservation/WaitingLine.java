package berth.server.reservation;

import berth.host.lock.Claim;
import berth.host.lock.GpuWish;
import berth.host.lock.HeldGpus;
import berth.host.lock.LockProtocol;
import berth.host.lock.LockWait;
import berth.host.lock.TicketQueue;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The requests of this process that wait for GPUs. One thread serves them in the order in which
 * they came; the order among the processes of the machine is that of their tickets.
 *
 * <p>What is wrong with this server is not the request's fault: one that waits keeps its place
 * while a GPU is lost, the driver is silent, the disk is full or a lock file cannot be used, is
 * told so, and goes on when it is over.
 *
 * <p>Guarded by the lock of {@link Reservations}: except for {@link #start} and {@link #awaitEnd},
 * call with it. Nothing here waits for a lock file with it.
 */
final class WaitingLine {
  private static final Logger log = LoggerFactory.getLogger(WaitingLine.class);

  // Those before a request that does not want to wait may just be on their way through.
  private static final Duration PASSING = Duration.ofMillis(250);

  // After trouble of this server.
  private static final long AGAIN_MILLIS = 1000;

  // Telling all of a long line who is where takes its time, so not after each of many changes.
  private static final long TELL_EVERY_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  private static final int LONG_LINE = 32;

  // Until those who wait for a place in the machine's line are told what keeps them.
  private static final long PLACE_MILLIS = 1000;

  /** Makes a reservation of what a request has got. Called without the lock. */
  interface Granter {
    void grant(Pending pending, HeldGpus taken);
  }

  /** What a request was told last. */
  private record Told(int ahead, String because) {}

  /** A request in the line, and what became of it. */
  static final class Pending {
    private final ReservationRequest request;
    private final Claim claim;
    private final Instant since;
    private final long sinceNanos;
    private ReservationListener listener;
    private Told told;
    private String granted;
    private boolean gone;
    private Future<?> limit = CompletableFuture.completedFuture(null);

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
  private final List<Pending> line = new ArrayList<>();
  private final LockWait placeWait = new LockWait();
  private Thread thread;
  private Optional<Pending> served = Optional.empty();
  private String trouble = "";
  private boolean takingPlaces;
  private boolean tellingSoon;
  private long toldNanos = System.nanoTime() - TELL_EVERY_NANOS;
  private boolean closed;

  WaitingLine(Object lock, LockProtocol protocol, ScheduledExecutorService timer, Granter granter) {
    this.lock = lock;
    this.protocol = protocol;
    this.timer = timer;
    this.granter = granter;
  }

  void start(Vitals vitals) {
    thread = vitals.start("reservation-claimer", this::serveNext);
  }

  /**
   * Takes a place at the end.
   *
   * @param possible see {@link Claim}
   * @throws BerthException if the request does not wait, and the line cannot be used
   */
  Pending join(
      ReservationRequest request,
      boolean possible,
      ReservationListener listener,
      Instant now,
      long nowNanos) {
    Claim claim = new Claim(protocol, request.gpus().orElseThrow(), possible);
    Pending pending = new Pending(request, claim, listener, now, nowNanos);
    // Tickets are taken in the order of the line. In general at once; whoever has to wait for that
    // does so without the lock.
    if (!takingPlaces) {
      try {
        protocol.queue().tryTake().ifPresent(claim::place);
      } catch (RuntimeException | Error e) {
        Optional<String> why = troubleOfTheServer(e);
        if (why.isEmpty() || !request.waits()) {
          throw failure(e);
        }
        trouble(why.get());
      }
    }
    line.add(pending);
    if (!claim.hasPlace() && !takingPlaces) {
      takingPlaces = true;
      protocol.retries().later(this::takePlaces);
    }
    lock.notifyAll();
    limitWait(pending);
    tell(pending, aheadOfFirst() + line.size() - 1);
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
          pending.told = null;
          tell(pending, aheadOfFirst() + line.indexOf(pending));
        });
    return same;
  }

  /** Notes that a request has been served. */
  void served(Pending pending, String reservationId) {
    line.remove(pending);
    pending.limit.cancel(false);
    pending.granted = reservationId;
  }

  /** Leaves the line, because client disconnected. */
  void leave(Pending pending) {
    pending.gone = true;
    cancel(pending, new BerthException(Reason.CANCELLED, "client disconnected"));
    dropUnlessServed(pending);
  }

  void refuseAll(BerthException why) {
    for (Pending pending : List.copyOf(line)) {
      refuse(pending, why);
    }
  }

  /**
   * How many requests wait, of this owner or of all. Runs, which have a limit of their own, aside.
   */
  int waiting(Optional<Reservation.Owner> owner) {
    return (int)
        line.stream()
            .filter(p -> !(p.request.lifetime() instanceof Lifetime.OfRun))
            .filter(p -> owner.map(p.request.owner()::equals).orElse(true))
            .count();
  }

  List<Overview.Waiting> overview() {
    return line.stream()
        .map(p -> new Overview.Waiting(p.request, p.since, p.sinceNanos, trouble))
        .toList();
  }

  /** Ends the line; {@link #refuseAll} comes first. */
  void close() {
    closed = true;
    placeWait.cancel();
    lock.notifyAll();
  }

  /** Waits until nobody is being served any more. */
  void awaitEnd(Duration atMost) throws InterruptedException {
    if (thread != null) {
      thread.join(atMost.toMillis());
    }
  }

  private boolean serveNext() throws InterruptedException {
    Pending next;
    synchronized (lock) {
      while (line.isEmpty() ? !closed : !line.get(0).claim.hasPlace()) {
        lock.wait();
      }
      if (line.isEmpty()) {
        return false;
      }
      next = line.get(0);
      served = Optional.of(next);
    }
    BerthException failure = new BerthException(Reason.INTERNAL, "reserving failed unexpectedly");
    try {
      failure = serve(next);
    } finally {
      finish(next, failure);
    }
    return true;
  }

  private void finish(Pending pending, BerthException failure) {
    synchronized (lock) {
      served = Optional.empty();
      line.remove(pending);
      pending.limit.cancel(false);
      trouble = "";
      pending.claim.close();
      if (failure != null && !pending.gone) {
        pending.listener.failed(failure);
      }
      tellPositions();
    }
  }

  /** Why it was not granted; null if it was. */
  private BerthException serve(Pending pending) throws InterruptedException {
    while (true) {
      try {
        HeldGpus taken = pending.claim.run(pending.request.waits(), why -> waits(pending, why));
        granter.grant(pending, taken);
        return null;
      } catch (InterruptedException e) {
        throw e;
      } catch (RuntimeException | Error e) {
        Optional<String> why = troubleOfTheServer(e);
        if (why.isEmpty() || !pending.request.waits()) {
          return failure(e);
        }
        Optional<BerthException> cancelled = awaitBetterTimes(pending, why.get());
        if (cancelled.isPresent()) {
          return cancelled.get();
        }
      }
    }
  }

  private static BerthException failure(Throwable e) {
    if (e instanceof BerthException expected) {
      return expected;
    }
    Optional<String> trouble = troubleOfTheServer(e);
    if (trouble.isPresent()) {
      return new BerthException(Reason.UNAVAILABLE, trouble.get(), e);
    }
    log.error("reserving failed unexpectedly", e);
    return new BerthException(Reason.INTERNAL, "reserving failed unexpectedly", e);
  }

  // What may pass by itself: too few ports, no room on the disk, no more processes, files or
  // threads.
  private static Optional<String> troubleOfTheServer(Throwable e) {
    boolean passing =
        e instanceof BerthException expected
            ? expected.reason() == Reason.UNAVAILABLE || expected.reason() == Reason.EXHAUSTED
            : LockProtocol.isRefusedCall(e)
                || e instanceof UncheckedIOException
                || e instanceof OutOfMemoryError;
    return passing ? Optional.of(String.valueOf(e.getMessage())) : Optional.empty();
  }

  private Optional<BerthException> awaitBetterTimes(Pending pending, String why)
      throws InterruptedException {
    synchronized (lock) {
      if (pending.claim.cancelled().isEmpty()) {
        if (!why.equals(trouble)) {
          log.warn("requests for GPUs wait: {}", why);
        }
        waits(pending, why);
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(AGAIN_MILLIS);
        for (long left = AGAIN_MILLIS; left > 0 && pending.claim.cancelled().isEmpty(); ) {
          lock.wait(left);
          left = (until - System.nanoTime()) / 1_000_000;
        }
      }
      return pending.claim.cancelled();
    }
  }

  // The first of the line has to wait, and all behind it for the same reason.
  private void waits(Pending first, String why) {
    synchronized (lock) {
      Told news = new Told(0, why);
      if (!first.gone && !news.equals(first.told)) {
        first.told = news;
        first.listener.queued(0, why);
      }
      trouble(why);
    }
  }

  private void trouble(String why) {
    if (!why.equals(trouble)) {
      trouble = why;
      tellPositions();
    }
  }

  // For those to whom nobody could give a ticket at once, in the order of the line.
  private void takePlaces() {
    while (true) {
      try {
        Optional<TicketQueue.Ticket> ticket = takePlace();
        synchronized (lock) {
          Optional<Pending> next = line.stream().filter(p -> !p.claim.hasPlace()).findFirst();
          if (ticket.isPresent() && next.isPresent()) {
            next.get().claim.place(ticket.get());
            lock.notifyAll();
          } else {
            ticket.ifPresent(TicketQueue.Ticket::close);
          }
          if (ticket.isEmpty() || line.stream().allMatch(p -> p.claim.hasPlace())) {
            takingPlaces = false;
            trouble(served.isPresent() ? trouble : "");
            return;
          }
        }
      } catch (RuntimeException | Error e) {
        synchronized (lock) {
          if (!String.valueOf(e.getMessage()).equals(trouble)) {
            log.warn("no request can enter the queue: {}", e.toString());
          }
          trouble(String.valueOf(e.getMessage()));
          if (!pause()) {
            takingPlaces = false;
            return;
          }
        }
      }
    }
  }

  private Optional<TicketQueue.Ticket> takePlace() {
    PlacePatience patience = new PlacePatience();
    try {
      return protocol.queue().take(placeWait);
    } finally {
      patience.end();
    }
  }

  // Call with the lock, which it gives up meanwhile.
  private boolean pause() {
    try {
      long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(AGAIN_MILLIS);
      for (long left = AGAIN_MILLIS; left > 0 && !closed; ) {
        lock.wait(left);
        left = (until - System.nanoTime()) / 1_000_000;
      }
      return !closed;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** Tells those who wait that another process has the line locked, if that takes long. */
  private final class PlacePatience {
    private boolean over;

    PlacePatience() {
      timer.schedule(this::tell, PLACE_MILLIS, TimeUnit.MILLISECONDS);
    }

    private void tell() {
      synchronized (lock) {
        if (!over && served.isEmpty()) {
          trouble(protocol.queue().file() + " is locked by another process");
        }
      }
    }

    void end() {
      synchronized (lock) {
        over = true;
      }
    }
  }

  // The one that is being served is told of its refusal by whoever serves it.
  private void refuse(Pending pending, BerthException why) {
    cancel(pending, why);
    if (dropUnlessServed(pending)) {
      pending.listener.failed(why);
    }
  }

  private void cancel(Pending pending, BerthException why) {
    pending.claim.cancel(why);
    lock.notifyAll();
  }

  private boolean dropUnlessServed(Pending pending) {
    if (served.equals(Optional.of(pending)) || !line.remove(pending)) {
      return false;
    }
    pending.limit.cancel(false);
    pending.claim.close();
    tellPositions();
    return true;
  }

  private void limitWait(Pending pending) {
    ReservationRequest request = pending.request;
    if (request.waitAtMost().isPresent()) {
      Duration limit = request.waits() ? request.waitAtMost().get() : PASSING;
      pending.limit =
          timer.schedule(
              () -> protocol.retries().now(() -> waitedEnough(pending)),
              limit.toNanos(),
              TimeUnit.NANOSECONDS);
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
      String because = trouble.isEmpty() ? "" : "; " + trouble;
      refuse(
          pending,
          request.waits()
              ? new BerthException(
                  Reason.TIMED_OUT,
                  asked
                      + "not granted within "
                      + request.waitAtMost().get().toMillis() / 1000.0
                      + " s"
                      + (ahead > 0 ? "; " + ahead + " requests are still before it" : "")
                      + because)
              : new BerthException(
                  Reason.EXHAUSTED, asked + "but others are waiting already" + because));
    }
  }

  // Requests of other processes that came between ours are not counted again for each of them.
  private int aheadOfFirst() {
    return line.get(0).claim.ahead();
  }

  private void tellPositions() {
    if (tellingSoon || line.isEmpty()) {
      return;
    }
    long left = toldNanos + TELL_EVERY_NANOS - System.nanoTime();
    if (left > 0 && line.size() > LONG_LINE && !timer.isShutdown()) {
      tellingSoon = true;
      timer.schedule(this::tellPositionsNow, left, TimeUnit.NANOSECONDS);
    } else {
      tellPositionsNow();
    }
  }

  private void tellPositionsNow() {
    synchronized (lock) {
      tellingSoon = false;
      toldNanos = System.nanoTime();
      int ahead = line.isEmpty() ? 0 : aheadOfFirst();
      for (Pending pending : line) {
        tell(pending, ahead++);
      }
    }
  }

  private void tell(Pending pending, int ahead) {
    Told news = new Told(ahead, trouble);
    if ((ahead > 0 || !trouble.isEmpty()) && !news.equals(pending.told) && !pending.gone) {
      pending.told = news;
      pending.listener.queued(ahead, trouble);
    }
  }
}
