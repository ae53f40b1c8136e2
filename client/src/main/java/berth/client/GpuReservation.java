package berth.client;

import berth.client.call.FollowedRun;
import berth.client.call.ReservationClient;
import berth.client.call.RunClient;
import berth.client.call.RunRequests;
import berth.client.spec.RunSpec;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.RenewRequest;
import berth.v1.Reservation;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/**
 * GPUs and ports of one server that are held until this is closed: a thread of its own renews the
 * lease. Should this process die, the server frees them when the lease is over. Any thread may
 * call.
 */
public final class GpuReservation implements AutoCloseable {
  private static final Duration ANSWER = Duration.ofSeconds(5);
  private static final Duration AT_ONCE = Duration.ofMillis(1);
  private static final int RENEWALS_PER_LEASE = 3;
  private static final int ATTEMPTS_PER_LEASE = 30;

  private final Berth berth;
  private final String server;
  private final Address address;
  private final Reservation reservation;
  private final Duration lease;
  private final ReservationClient client;
  private final InterruptibleCall keeper = new InterruptibleCall();
  private final Set<RunHandle> runs = ConcurrentHashMap.newKeySet();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private final AtomicBoolean closed = new AtomicBoolean();

  GpuReservation(
      Berth berth, String server, Address address, Reservation reservation, Duration lease) {
    this.berth = berth;
    this.server = server;
    this.address = address;
    this.reservation = reservation;
    this.lease = lease;
    this.client = ReservationClient.of(address);
  }

  /** Its name, by which {@code berth reservations} and others know it. */
  public String id() {
    return reservation.getReservationId();
  }

  /** The name of the server that holds it. */
  public String server() {
    return server;
  }

  /** Where that server is called; for programs that serve others on the ports, their host. */
  public Address address() {
    return address;
  }

  /** The GPUs, by ascending index. */
  public List<HeldGpu> gpus() {
    return HeldGpu.of(reservation);
  }

  /** The TCP ports, ascending. */
  public List<Integer> ports() {
    return List.copyOf(reservation.getPortsList());
  }

  /**
   * Is completed when this is closed. It fails with a {@link BerthException} as soon as the GPUs
   * are known to be held no longer: NOT_FOUND if somebody else has released them, UNAVAILABLE or
   * TIMED_OUT if the server was out of reach for longer than the lease.
   */
  public CompletableFuture<Void> ended() {
    return ended;
  }

  /**
   * Runs code on these GPUs, as {@link Berth#run} does; several runs may share them.
   *
   * @param spec asks for no GPUs and ports of its own: the program gets those that are held
   * @param lines gets what the program prints, both streams, line by line
   * @throws BerthException as {@link Berth#run}; INVALID if {@code spec} asks for GPUs or ports,
   *     NOT_FOUND if the reservation has ended
   */
  public RunResult run(RunSpec spec, Consumer<String> lines) {
    return Berth.await(runAsync(spec, lines));
  }

  /** The same without waiting for the end. */
  public RunHandle runAsync(RunSpec spec, Consumer<String> lines) {
    return runAsync(spec, lines, lines);
  }

  /** The same with a consumer for each stream. */
  public RunHandle runAsync(RunSpec spec, Consumer<String> out, Consumer<String> err) {
    if (!spec.resources().isNone()) {
      throw new BerthException(
          Reason.INVALID,
          "a run in a reservation uses its GPUs and ports and cannot ask for others");
    }
    RunHandle run = new RunHandle(RunHandle.Kind.ATTACHED, out, err);
    runs.add(run);
    berth.start(run, self -> follow(spec, self));
    return run;
  }

  private void follow(RunSpec spec, RunHandle run) throws IOException {
    try (RunRequests requests = new RunRequests(spec);
        RunClient server = RunClient.of(address)) {
      FollowedRun followed = new FollowedRun(server, run.events());
      run.attend(
          () -> server,
          followed::runId,
          () -> {
            var request = requests.request().setReservationId(id());
            requests.complete(
                request, server, server.listServices(ANSWER), UnaryOperator.identity());
            followed.run(request.build());
          });
    } finally {
      runs.remove(run);
    }
  }

  /** Renews the lease until this is closed, or the reservation is lost. */
  void keep() {
    keeper.run(
        () -> {
          try {
            renewForEver();
          } catch (InterruptedException e) {
            // It is being closed.
          } catch (BerthException e) {
            lose(e);
          }
        });
  }

  private void renewForEver() throws InterruptedException {
    RenewRequest request = RenewRequest.newBuilder().setReservationId(id()).build();
    long renewed = System.nanoTime();
    Duration pause = lease.dividedBy(RENEWALS_PER_LEASE);
    while (true) {
      TimeUnit.NANOSECONDS.sleep(pause.toNanos());
      long asked = System.nanoTime();
      try {
        client.renew(request, min(ANSWER, lease.dividedBy(RENEWALS_PER_LEASE)));
        renewed = asked;
        pause = lease.dividedBy(RENEWALS_PER_LEASE);
      } catch (BerthException e) {
        if (closed.get()) {
          return;
        }
        boolean late = System.nanoTime() - renewed > lease.toNanos();
        if (e.reason() == Reason.NOT_FOUND || late) {
          throw e;
        }
        pause = lease.dividedBy(ATTEMPTS_PER_LEASE);
        client.connectNow();
      }
    }
  }

  private void lose(BerthException why) {
    closed.set(true);
    client.close();
    berth.forget(this);
    ended.completeExceptionally(
        new BerthException(
            why.reason(), id() + " on " + server + " is lost: " + why.getMessage(), why));
  }

  /**
   * Frees the GPUs and ports, after the runs that were started on them here have ended: they are
   * ended as by {@link RunHandle#close}. If the server cannot be reached, they are free when the
   * lease is over.
   */
  @Override
  public void close() {
    if (closed.getAndSet(true)) {
      return;
    }
    runs.forEach(RunHandle::cancel);
    runs.forEach(RunHandle::close);
    keeper.end();
    // Whoever closes it because of an interrupt wants it to be free all the more.
    boolean interrupted = Thread.interrupted();
    try {
      release();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
      client.close();
      berth.forget(this);
      ended.complete(null);
    }
  }

  private void release() {
    try {
      client.release(id(), ANSWER);
    } catch (BerthException e) {
      if (e.reason() == Reason.CONFLICT) {
        endWithRunsOfOthers();
      }
      // Else it is gone, or will be with its lease.
    }
  }

  private void endWithRunsOfOthers() {
    try {
      client.renew(
          RenewRequest.newBuilder()
              .setReservationId(id())
              .setLease(Messages.duration(AT_ONCE))
              .build(),
          ANSWER);
    } catch (BerthException e) {
      // As in release().
    }
  }

  private static Duration min(Duration a, Duration b) {
    return a.compareTo(b) < 0 ? a : b;
  }
}
