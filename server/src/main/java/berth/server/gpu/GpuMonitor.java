package berth.server.gpu;

import berth.metrics.Metrics;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Knows the newest sample of this machine's GPUs, and judges their health.
 *
 * <p>One thread reads the source, whatever the number of listeners; a second one notices when the
 * first hangs in the driver. {@link #newest} and {@link #listen} may be called from any thread and
 * never wait for the driver. A GPU is sick after a critical error until it has answered without
 * another for the recovery time.
 */
public final class GpuMonitor implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(GpuMonitor.class);

  // A native call cannot be interrupted, so the wait for errors is cut into pieces that a stop can
  // wait for.
  private static final Duration LONGEST_WAIT = Duration.ofMillis(50);
  private static final Duration STOP_GRACE = Duration.ofSeconds(2);

  // While somebody may soon ask for a sample at once.
  private static final Duration ATTENTIVE_WAIT = Duration.ofMillis(10);

  /**
   * How often and how patiently.
   *
   * @param interval from one sample to the next
   * @param recovery how long a sick GPU must answer without a further error
   * @param stall how long the driver may take for an answer before its GPUs count as unknown
   */
  public record Timing(Duration interval, Duration recovery, Duration stall) {}

  private record Sickness(String reason, long untilNanos) {}

  private final GpuSource source;
  private final Timing timing;
  private final LongSupplier nanoClock;
  private final Clock wallClock;
  private final List<GpuListener> listeners = new CopyOnWriteArrayList<>();
  private final CountDownLatch firstSample = new CountDownLatch(1);
  private final Map<String, Sickness> sick = new HashMap<>();
  private final Thread sampler = new Thread(this::sampleForever, "gpu-sampler");
  private final Thread watchdog = new Thread(this::watchForever, "gpu-watchdog");

  private volatile GpuSample newest;
  private volatile boolean closed;
  private volatile long answerDueNanos;
  private final AtomicInteger attention = new AtomicInteger();
  private volatile boolean sampleWanted;
  private boolean stalled;
  private long newestBegunNanos;

  GpuMonitor(GpuSource source, Timing timing, LongSupplier nanoClock, Clock wallClock) {
    this.source = source;
    this.timing = timing;
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    this.newest = GpuSample.before(source.simulated());
    this.newestBegunNanos = nanoClock.getAsLong() - 1;
    this.answerDueNanos = nanoClock.getAsLong() + timing.stall.toNanos();
    sampler.setDaemon(true);
    watchdog.setDaemon(true);
  }

  /**
   * Watches the GPUs of this machine's driver.
   *
   * @param library NVML's file or file name; that of every driver if empty
   */
  public static GpuMonitor ofNvml(Optional<String> library, Timing timing) {
    String name = library.orElse(NvmlGpus.LIBRARY);
    return start(
        new NvmlGpus(() -> NvmlGpus.load(name), false, NvmlGpus.RETRY, System::nanoTime), timing);
  }

  /**
   * Watches simulated GPUs.
   *
   * @param gpus how many, or the file that describes them
   * @param seed GPUs of the same seed have the same UUIDs
   */
  public static GpuMonitor ofSimulation(String gpus, String seed, Timing timing) {
    return start(Simulation.open(gpus, seed), timing);
  }

  /** Starts to sample {@code source} and closes it in the end. */
  static GpuMonitor start(GpuSource source, Timing timing) {
    GpuMonitor monitor = new GpuMonitor(source, timing, System::nanoTime, Clock.systemUTC());
    monitor.sampler.start();
    monitor.watchdog.start();
    return monitor;
  }

  /** Shows what the newest sample says among these metrics from now on. */
  public void reportTo(Metrics metrics) {
    GpuMetrics.report(this, metrics);
  }

  public GpuSample newest() {
    return newest;
  }

  /** The present on the clock of {@link GpuSample.Taken#nanos}. */
  public long nowNanos() {
    return nanoClock.getAsLong();
  }

  /**
   * Waits for the first sample, at most {@code timeout}: a driver may need seconds to wake up, or
   * never answer.
   */
  public boolean awaitFirstSample(Duration timeout) throws InterruptedException {
    return firstSample.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }

  /**
   * Answers {@link #awaitSampleSince} within milliseconds from now on, until the result is run;
   * else it takes up to 50 ms.
   */
  public Runnable attend() {
    attention.incrementAndGet();
    return attention::decrementAndGet;
  }

  /** Takes a sample as soon as possible, for somebody who will soon wait for it. */
  public void wantSample() {
    sampleWanted = true;
  }

  /**
   * Waits for a sample that was begun at {@code nanos} or later, without waiting for the interval;
   * empty if the driver does not answer in time.
   */
  public Optional<GpuSample> awaitSampleSince(long nanos, Duration atMost)
      throws InterruptedException {
    long deadline = nanoClock.getAsLong() + atMost.toNanos();
    synchronized (this) {
      while (newestBegunNanos - nanos < 0) {
        sampleWanted = true;
        long left = deadline - nanoClock.getAsLong();
        if (closed || left <= 0) {
          return Optional.empty();
        }
        wait(Math.max(1, left / 1_000_000));
      }
      return Optional.of(newest);
    }
  }

  /**
   * Adds a listener, tells it the newest sample, and then all that follows. Run the result to end
   * that.
   */
  public Runnable listen(GpuListener listener) {
    synchronized (this) {
      if (closed) {
        listener.stopped();
        return () -> {};
      }
      listener.sampled(newest);
      listeners.add(listener);
    }
    return () -> listeners.remove(listener);
  }

  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
      listeners.forEach(GpuListener::stopped);
      listeners.clear();
    }
    sampler.interrupt();
    watchdog.interrupt();
    try {
      // A sampler that hangs in the driver is left to the end of the process.
      sampler.join(STOP_GRACE.toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void sampleForever() {
    try {
      while (!closed) {
        long started = nanoClock.getAsLong();
        sampleOnce();
        long next = started + timing.interval.toNanos();
        for (long left; !closed && !sampleWanted && (left = next - nanoClock.getAsLong()) > 0; ) {
          Duration longest = attention.get() > 0 ? ATTENTIVE_WAIT : LONGEST_WAIT;
          awaitError(Duration.ofNanos(Math.min(left, longest.toNanos())));
        }
      }
    } catch (InterruptedException e) {
      // Closed.
    } finally {
      source.close();
    }
  }

  void sampleOnce() {
    long begun = nanoClock.getAsLong();
    sampleWanted = false;
    answerDueNanos = nanoClock.getAsLong() + timing.stall.toNanos();
    GpuReading reading;
    try {
      reading = source.read();
    } catch (RuntimeException e) {
      log.error("reading the GPUs failed unexpectedly", e);
      reading = GpuReading.unreadable("reading the GPUs failed: " + e.getMessage());
    }
    long now = nanoClock.getAsLong();
    // It has answered; what follows is our own affair.
    answerDueNanos = now + timing.stall.toNanos();
    synchronized (this) {
      stalled = false;
      newestBegunNanos = begun;
      notifyAll();
      publish(
          new GpuSample(
              Optional.of(new GpuSample.Taken(wallClock.instant(), now)),
              reading.driverVersion(),
              reading.cudaVersion(),
              source.simulated(),
              reading.problem(),
              judge(reading.gpus(), now),
              reading.links()));
    }
    firstSample.countDown();
  }

  void awaitError(Duration timeout) throws InterruptedException {
    answerDueNanos = nanoClock.getAsLong() + timeout.plus(timing.stall).toNanos();
    Optional<Xid> reported;
    try {
      reported = source.awaitXid(timeout);
    } catch (RuntimeException e) {
      log.error("waiting for errors of the GPUs failed unexpectedly", e);
      // It may have failed at once, and will be asked again.
      Thread.sleep(timeout.toMillis());
      return;
    }
    if (reported.isEmpty()) {
      return;
    }
    Xid xid = reported.get();
    if (xid.isFaultOfTheApplication()) {
      log.info("{}: {}, a fault of the program, not of the GPU", xid.uuid(), xid);
      return;
    }
    synchronized (this) {
      long now = nanoClock.getAsLong();
      sick.put(xid.uuid(), new Sickness(xid.toString(), now + timing.recovery.toNanos()));
      GpuHealth health = new GpuHealth(GpuHealth.State.SICK, xid.toString());
      publish(
          newest.with(
              newest.problem(),
              newest.gpus().stream()
                  .map(
                      gpu ->
                          gpu.uuid().equals(xid.uuid())
                                  && gpu.health().state() != GpuHealth.State.LOST
                              ? gpu.withHealth(health)
                              : gpu)
                  .toList()));
    }
  }

  // What the source says of a GPU comes first: a lost GPU is lost, whatever it reported before.
  private List<Gpu> judge(List<Gpu> gpus, long now) {
    List<Gpu> judged = new ArrayList<>();
    for (Gpu gpu : gpus) {
      Sickness sickness = sick.get(gpu.uuid());
      if (sickness == null) {
        judged.add(gpu);
      } else if (!gpu.health().healthy()) {
        // Its time of answering without an error begins anew when it answers.
        sick.put(gpu.uuid(), new Sickness(sickness.reason, now + timing.recovery.toNanos()));
        judged.add(gpu);
      } else if (now - sickness.untilNanos >= 0) {
        sick.remove(gpu.uuid());
        judged.add(gpu);
      } else {
        judged.add(gpu.withHealth(new GpuHealth(GpuHealth.State.SICK, sickness.reason)));
      }
    }
    return judged;
  }

  private void watchForever() {
    try {
      while (!closed) {
        long left = answerDueNanos - nanoClock.getAsLong();
        TimeUnit.NANOSECONDS.sleep(Math.max(left, TimeUnit.MILLISECONDS.toNanos(100)));
        checkForStall();
      }
    } catch (InterruptedException e) {
      // Closed.
    }
  }

  void checkForStall() {
    synchronized (this) {
      if (closed || stalled || nanoClock.getAsLong() - answerDueNanos < 0) {
        return;
      }
      stalled = true;
      String reason = "the driver has not answered for " + timing.stall.toMillis() / 1000.0 + " s";
      GpuHealth unknown = new GpuHealth(GpuHealth.State.UNKNOWN, reason);
      publish(
          newest.with(
              Optional.of(reason),
              newest.gpus().stream().map(gpu -> gpu.withHealth(unknown)).toList()));
    }
  }

  // Call with the lock: listeners are told in order.
  private void publish(GpuSample sample) {
    if (closed) {
      return;
    }
    GpuSample previous = newest;
    newest = sample;
    if (!sample.problem().equals(previous.problem())) {
      sample
          .problem()
          .ifPresentOrElse(
              problem -> log.warn("no GPUs can be read: {}", problem),
              () -> log.info("{} GPUs can be read", sample.gpus().size()));
    }
    List<GpuHealthChange> changes = changes(previous, sample);
    for (GpuHealthChange change : changes) {
      log.warn(
          "GPU {} ({}) is {}, was {}",
          change.index(),
          change.uuid(),
          change.after(),
          change.before());
    }
    for (GpuListener listener : listeners) {
      changes.forEach(listener::healthChanged);
      listener.sampled(sample);
    }
  }

  private List<GpuHealthChange> changes(GpuSample previous, GpuSample sample) {
    Map<String, GpuHealth> before = new HashMap<>();
    previous.gpus().forEach(gpu -> before.put(identity(gpu), gpu.health()));
    List<GpuHealthChange> changes = new ArrayList<>();
    for (Gpu gpu : sample.gpus()) {
      GpuHealth was = before.getOrDefault(identity(gpu), gpu.health());
      if (!was.equals(gpu.health())) {
        changes.add(
            new GpuHealthChange(gpu.uuid(), gpu.index(), was, gpu.health(), wallClock.instant()));
      }
    }
    return changes;
  }

  private static String identity(Gpu gpu) {
    return gpu.uuid().isEmpty() ? "#" + gpu.index() : gpu.uuid();
  }
}
