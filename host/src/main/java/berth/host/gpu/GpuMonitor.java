package berth.host.gpu;

import berth.host.state.DurableFiles;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import java.io.IOException;
import java.nio.file.Path;
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
import java.util.function.UnaryOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Knows the newest sample of this machine's GPUs, and judges their health.
 *
 * <p>One thread reads the source, whatever the number of listeners; a second one notices when the
 * first hangs in the driver. {@link #newest} and {@link #listen} may be called from any thread and
 * never wait for the driver. {@link GpuOutages} knows which GPUs are out of service and until when.
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
   * @param stall how long the driver may take for an answer before its GPUs count as unknown
   */
  public record Timing(Duration interval, Duration stall) {}

  /**
   * What a daemon has for the monitor.
   *
   * @param stateFolder where it is kept which GPUs are out of service
   * @param vitals of the threads
   */
  public record Host(Path stateFolder, DurableFiles files, Vitals vitals) {}

  private final GpuSource source;
  private final Timing timing;
  private final LongSupplier nanoClock;
  private final Clock wallClock;
  private final List<GpuListener> listeners = new CopyOnWriteArrayList<>();
  private final CountDownLatch firstSample = new CountDownLatch(1);
  private final OutageStore store;
  private final GpuOutages outages;
  private Map<String, Outage> saved;
  private Optional<Thread> sampler = Optional.empty();
  private Optional<Thread> watchdog = Optional.empty();

  private volatile GpuSample newest;
  private volatile boolean closed;
  private volatile long answerDueNanos;
  private final AtomicInteger attention = new AtomicInteger();
  private volatile boolean sampleWanted;
  private boolean stalled;
  private long newestBegunNanos;

  public GpuMonitor(
      GpuSource source, Timing timing, LongSupplier nanoClock, Clock wallClock, OutageStore store) {
    this.store = store;
    this.saved = Map.copyOf(store.load());
    this.outages = new GpuOutages(saved);
    this.source = source;
    this.timing = timing;
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    this.newest = GpuSample.before(source.simulated());
    this.newestBegunNanos = nanoClock.getAsLong() - 1;
    this.answerDueNanos = nanoClock.getAsLong() + timing.stall.toNanos();
  }

  public GpuMonitor(GpuSource source, Timing timing, LongSupplier nanoClock, Clock wallClock) {
    this(source, timing, nanoClock, wallClock, OutageStore.none());
  }

  /**
   * Watches the GPUs of this machine's driver.
   *
   * @param library NVML's file or file name; that of every driver if empty
   */
  public static GpuMonitor ofNvml(Optional<String> library, Timing timing, Host host) {
    return start(nvml(library), timing, host);
  }

  /** The same for a command that keeps nothing. */
  public static GpuMonitor ofNvml(Optional<String> library, Timing timing) {
    return start(nvml(library), timing);
  }

  /**
   * Watches simulated GPUs.
   *
   * @param gpus how many, or the file that describes them
   * @param seed GPUs of the same seed have the same UUIDs
   */
  public static GpuMonitor ofSimulation(String gpus, String seed, Timing timing, Host host) {
    return start(Simulation.open(gpus, seed), timing, host);
  }

  /** The same for a command that keeps nothing. */
  public static GpuMonitor ofSimulation(String gpus, String seed, Timing timing) {
    return start(Simulation.open(gpus, seed), timing);
  }

  private static GpuSource nvml(Optional<String> library) {
    String name = library.orElse(NvmlGpus.LIBRARY);
    return new NvmlGpus(() -> NvmlGpus.load(name), false, NvmlGpus.RETRY, System::nanoTime);
  }

  /** Starts to sample {@code source} and closes it in the end. */
  public static GpuMonitor start(GpuSource source, Timing timing) {
    return start(source, timing, OutageStore.none(), new Vitals());
  }

  static GpuMonitor start(GpuSource source, Timing timing, Host host) {
    OutageStore store = OutageFiles.open(host.stateFolder, host.files, host.vitals);
    try {
      return start(source, timing, store, host.vitals);
    } catch (BerthException e) {
      store.close();
      source.close();
      throw e;
    }
  }

  private static GpuMonitor start(
      GpuSource source, Timing timing, OutageStore store, Vitals vitals) {
    GpuMonitor monitor = new GpuMonitor(source, timing, System::nanoTime, Clock.systemUTC(), store);
    monitor.sampler = Optional.of(vitals.start("gpu-sampler", monitor::sampleAndWait));
    monitor.watchdog = Optional.of(vitals.start("gpu-watchdog", monitor::watch));
    return monitor;
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

  /** Whether the next sample is due at once. */
  boolean sampleWanted() {
    return sampleWanted;
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
    sampler.ifPresent(Thread::interrupt);
    watchdog.ifPresent(Thread::interrupt);
    try {
      // A sampler that hangs in the driver is left to the end of the process.
      if (sampler.isPresent()) {
        sampler.get().join(STOP_GRACE.toMillis());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    store.close();
  }

  /**
   * Puts a GPU back into service as declared by the administrator.
   *
   * @param id its index or UUID
   * @param force although the driver asks for a recovery action
   * @return the GPU as it is now
   * @throws BerthException if there is no such GPU, it cannot be used, or this cannot be kept
   */
  public Gpu heal(String id, boolean force) {
    if (id.isEmpty()) {
      // A GPU that never answered has no UUID, and nobody can mean that.
      throw new BerthException(Reason.INVALID, "missing GPU: give its index or UUID");
    }
    Gpu healed;
    synchronized (this) {
      Gpu gpu =
          newest.gpus().stream()
              .filter(known -> id.equals(known.uuid()) || id.equals("" + known.index()))
              .findFirst()
              .orElseThrow(
                  () ->
                      new BerthException(
                          Reason.NOT_FOUND,
                          "no GPU '" + id + "' here: this server has " + newest.gpus().size()));
      healed = outages.heal(gpu, force);
      log.info(
          "GPU {} ({}) is in service as declared by the administrator", gpu.index(), gpu.uuid());
      publish(newest.with(newest.problem(), replacing(gpu.uuid(), known -> healed)));
    }
    try {
      store.flush();
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "GPU "
              + healed.index()
              + " is in service, but this could not be stored for the next start of berthd: "
              + e.getMessage(),
          e);
    }
    return healed;
  }

  private boolean sampleAndWait() throws InterruptedException {
    try {
      if (!closed) {
        long started = nanoClock.getAsLong();
        sampleOnce();
        long next = started + timing.interval.toNanos();
        for (long left; !closed && !sampleWanted && (left = next - nanoClock.getAsLong()) > 0; ) {
          Duration longest = attention.get() > 0 ? ATTENTIVE_WAIT : LONGEST_WAIT;
          awaitError(Duration.ofNanos(Math.min(left, longest.toNanos())));
        }
      }
    } catch (InterruptedException e) {
      // Closed; or else somebody wants to be rid of us all the same.
      closed = true;
    }
    if (closed) {
      source.close();
    }
    return !closed;
  }

  public void sampleOnce() {
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
              outages.judge(reading.gpus()),
              reading.links()));
    }
    firstSample.countDown();
  }

  public void awaitError(Duration timeout) throws InterruptedException {
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
    if (xid.code() == XidCatalogue.RECOVERY_ACTION_CHANGED) {
      log.info("{}: {}", xid.uuid(), xid);
      sampleWanted = true;
      return;
    }
    if (xid.entry().ofTheApplication()) {
      log.info("{}: {}, {}", xid.uuid(), xid, xid.entry().why());
      return;
    }
    synchronized (this) {
      outages.report(xid);
      publish(newest.with(newest.problem(), replacing(xid.uuid(), outages::afterReport)));
    }
    // The driver may say what the error means: if nothing, the GPU is not to be out for longer.
    sampleWanted = true;
  }

  // Call with the lock.
  private List<Gpu> replacing(String uuid, UnaryOperator<Gpu> by) {
    return newest.gpus().stream()
        .map(gpu -> gpu.uuid().equals(uuid) ? by.apply(gpu) : gpu)
        .toList();
  }

  private boolean watch() throws InterruptedException {
    long left = answerDueNanos - nanoClock.getAsLong();
    TimeUnit.NANOSECONDS.sleep(Math.max(left, TimeUnit.MILLISECONDS.toNanos(100)));
    checkForStall();
    return !closed;
  }

  public void checkForStall() {
    synchronized (this) {
      if (closed || stalled || nanoClock.getAsLong() - answerDueNanos < 0) {
        return;
      }
      stalled = true;
      String reason = "the driver has not answered for " + timing.stall.toMillis() / 1000.0 + " s";
      publish(
          newest.with(
              Optional.of(reason),
              newest.gpus().stream()
                  .map(gpu -> gpu.withHealth(gpu.health().unknown(reason)))
                  .toList()));
    }
  }

  // Call with the lock: listeners are told in order.
  private void publish(GpuSample sample) {
    if (closed) {
      return;
    }
    Map<String, Outage> now = outages.all();
    if (!now.equals(saved)) {
      saved = now;
      store.save(now);
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
      // That the driver has got a word for what a GPU needs is no news if that is nothing.
      if (!change.after().toString().equals(change.before().toString())) {
        log.warn(
            "GPU {} ({}) is {}, was {}",
            change.index(),
            change.uuid(),
            change.after(),
            change.before());
      }
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
