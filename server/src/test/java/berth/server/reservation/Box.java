package berth.server.reservation;

import berth.host.gpu.GpuMonitor;
import berth.host.lock.GpuWish;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Vitals;
import berth.server.reservation.Reservation.Owner;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/** A machine with simulated GPUs, its lock folder, and daemons on it. */
final class Box implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private final Path locks;
  private final Path states;
  private final Path description;
  private final GpuMonitor gpus;
  private final Vitals vitals = new Vitals();
  private final DurableFiles durable = new DurableFiles(vitals);
  private Metrics metrics;
  private final List<Reservations> daemons = new ArrayList<>();
  private final AtomicInteger names = new AtomicInteger();

  Box(Path folder, String description) {
    try {
      this.locks = Files.createDirectory(folder.resolve("locks"));
      this.states = Files.createDirectory(folder.resolve("states"));
      this.description = Files.writeString(folder.resolve("gpus.txt"), description);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    this.gpus =
        GpuMonitor.ofSimulation(
            this.description.toString(),
            "",
            new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    try {
      gpus.awaitFirstSample(PATIENCE);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** So many GPUs that are all alike. */
  static String gpus(int count) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < count; i++) {
      text.append("gpu GPU-").append(i).append("\n  name Simulated A100\n  memory 81920 0\n");
      text.append("  processes\n");
    }
    return text.toString();
  }

  Path locks() {
    return locks;
  }

  Path lock(int gpu) {
    return locks.resolve("tmp_lock_gpu" + gpu);
  }

  Path systemLock() {
    return locks.resolve("tmp_lock_sysgpus");
  }

  /** Those of the daemon that was opened last. */
  Metrics metrics() {
    return metrics;
  }

  GpuMonitor monitor() {
    return gpus;
  }

  Reservations daemon() {
    return daemon("d" + names.incrementAndGet(), "20000-20999");
  }

  Reservations daemon(String name, String ports) {
    return daemon(new Reservations.Settings(name, locks, states.resolve(name), ports, false));
  }

  Reservations daemon(Reservations.Settings settings) {
    metrics = new Metrics();
    Reservations daemon = Reservations.open(settings, gpus, durable, vitals, metrics);
    daemons.add(daemon);
    return daemon;
  }

  /** Changes the GPUs, and returns when the change has been sampled. */
  void describe(String text) throws InterruptedException {
    try {
      Path next = Files.writeString(description.resolveSibling("next.txt"), text);
      Files.move(next, description, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    // The first is the newest known, the second may be under way already, the third is new for
    // sure.
    CountDownLatch samples = new CountDownLatch(3);
    Runnable stop = gpus.listen(new Samples(samples));
    samples.await(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    stop.run();
  }

  @Override
  public void close() {
    daemons.forEach(Reservations::close);
    gpus.close();
    durable.close();
    ProcessHandle.current()
        .children()
        .filter(this::holdsALock)
        .forEach(ProcessHandle::destroyForcibly);
  }

  private boolean holdsALock(ProcessHandle keeper) {
    try (Stream<Path> open = Files.list(Path.of("/proc/" + keeper.pid() + "/fd"))) {
      for (Path descriptor : open.toList()) {
        if (Files.readSymbolicLink(descriptor).startsWith(locks)) {
          return true;
        }
      }
    } catch (IOException e) {
      // It has ended meanwhile.
    }
    return false;
  }

  /** A request for so many GPUs that waits for ever and lives by renewals. */
  static ReservationRequest asking(int count) {
    return asking(GpuWish.of(count), Optional.empty());
  }

  /** The same without waiting. */
  static ReservationRequest askingNow(int count) {
    return asking(GpuWish.of(count), Optional.of(Duration.ZERO));
  }

  static ReservationRequest asking(GpuWish wish, Optional<Duration> wait) {
    return request(wish, wait, new Lifetime.Renewals(Duration.ofMinutes(10)), "");
  }

  static ReservationRequest request(
      GpuWish wish, Optional<Duration> wait, Lifetime lifetime, String requestId) {
    return new ReservationRequest(
        Optional.of(wish), 0, wait, lifetime, new Owner("ada", "laptop"), "test", requestId);
  }

  /** What becomes of a request. */
  static class Outcome implements ReservationListener {
    private final CompletableFuture<Reservation> granted = new CompletableFuture<>();
    private final CompletableFuture<Void> waiting = new CompletableFuture<>();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();
    private final List<Integer> positions = new ArrayList<>();
    private final List<String> reasons = new ArrayList<>();
    private Runnable leave = () -> {};

    static Outcome of(Reservations daemon, ReservationRequest request) {
      Outcome outcome = new Outcome();
      outcome.leave = daemon.reserve(request, outcome);
      return outcome;
    }

    @Override
    public void queued(int ahead, String because) {
      synchronized (positions) {
        positions.add(ahead);
        reasons.add(because);
      }
      waiting.complete(null);
    }

    @Override
    public void granted(Reservation reservation) {
      granted.complete(reservation);
    }

    @Override
    public void failed(BerthException why) {
      granted.completeExceptionally(why);
    }

    @Override
    public void ended() {
      ended.complete(null);
    }

    /** The grant, as soon as there is one; throws why there is none. */
    Reservation get() {
      return await(granted);
    }

    boolean isGranted() {
      return granted.isDone();
    }

    /** Returns once the request had to wait. */
    Outcome awaitQueued() {
      await(waiting);
      return this;
    }

    void awaitEnd() {
      await(ended);
    }

    List<Integer> positions() {
      synchronized (positions) {
        return List.copyOf(positions);
      }
    }

    /** What was wrong with the server, each time it was told; empty for nothing. */
    List<String> reasons() {
      synchronized (positions) {
        return List.copyOf(reasons);
      }
    }

    void leave() {
      leave.run();
    }

    private static <T> T await(CompletableFuture<T> future) {
      try {
        return future.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
      } catch (ExecutionException e) {
        if (e.getCause() instanceof BerthException expected) {
          throw expected;
        }
        throw new AssertionError(e.getCause());
      } catch (TimeoutException | InterruptedException e) {
        throw new AssertionError("nothing happened within " + PATIENCE, e);
      }
    }
  }

  private record Samples(CountDownLatch latch) implements berth.host.gpu.GpuListener {
    @Override
    public void sampled(berth.host.gpu.GpuSample sample) {
      latch.countDown();
    }

    @Override
    public void healthChanged(berth.host.gpu.GpuHealthChange change) {}

    @Override
    public void stopped() {}
  }
}
