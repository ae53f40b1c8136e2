package berth.host.lock;

import berth.host.gpu.GpuMonitor;
import berth.rpc.Vitals;
import com.sun.jna.LastErrorException;
import java.io.IOException;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchEvent;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all claims of this process share: the lock files, the line before them, and the knowledge of
 * what this process holds. It also guards what is held against cleaners that remove lock files. Any
 * thread may call.
 */
public final class LockProtocol implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(LockProtocol.class);

  // Lock files are looked at also without any event: the folder may be another one, or of a kind
  // that tells nothing. Sooner if somebody was faster to lock a new file, and may let go of it.
  private static final long LOOK_SECONDS = 5;
  private static final long LOST_SECONDS = 1;

  private final LockFolder folder;
  private final TicketQueue queue;
  private final GpuMonitor gpus;
  private final boolean ignoreStrangers;
  private final Set<HeldGpus> held = ConcurrentHashMap.newKeySet();
  private final Set<Guarded> guarded = ConcurrentHashMap.newKeySet();
  private final StandIns standIns;
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private final Set<Integer> gathered = ConcurrentHashMap.newKeySet();
  private final Map<Integer, Long> freedAtNanos = new ConcurrentHashMap<>();
  private final WatchService watch;
  private volatile boolean closed;
  private boolean lost;

  // Threads that wait in the kernel, one for each awaited lock file.
  private final ExecutorService waiters =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "lock-waiter");
            thread.setDaemon(true);
            return thread;
          });
  private final Retries retries = new Retries(waiters);

  public LockProtocol(LockFolder folder, GpuMonitor gpus, boolean ignoreStrangers, Vitals vitals) {
    this.folder = folder;
    this.queue = new TicketQueue(folder);
    this.gpus = gpus;
    this.ignoreStrangers = ignoreStrangers;
    this.standIns =
        new StandIns(folder, retries, index -> holds(index) || gathered.contains(index));
    this.watch = watchFolder();
    standIns.look(gpus.newest().gpus().size());
    vitals.start("lock-guard", this::guardOnce);
  }

  public LockFolder folder() {
    return folder;
  }

  public TicketQueue queue() {
    return queue;
  }

  public GpuMonitor gpus() {
    return gpus;
  }

  boolean ignoresStrangers() {
    return ignoreStrangers;
  }

  ExecutorService waiters() {
    return waiters;
  }

  /**
   * Notes that this process holds {@code gpus} from now on.
   *
   * @return false if somebody else has locked one of them, because its file was replaced between
   *     the locking and now
   */
  public boolean remember(HeldGpus gpus) {
    held.add(gpus);
    return guard(gpus);
  }

  /** Guards lock files from now on. False if somebody else has locked one of them. */
  public boolean guard(Guarded files) {
    guarded.add(files);
    // It may have happened between the locking and now.
    return files.lockReplaced();
  }

  /** No longer guards what is free. */
  public void unguard(Guarded files) {
    guarded.remove(files);
  }

  /** Notes that this process has released {@code gpus}, and tells who listens. */
  void forget(HeldGpus gpus) {
    held.remove(gpus);
    unguard(gpus);
    listeners.forEach(Runnable::run);
  }

  /** Whether this process holds a GPU. Those who listen are told when it no longer does. */
  boolean holds(int index) {
    return held.stream().anyMatch(gpus -> gpus.has(index));
  }

  /**
   * Runs {@code listener} whenever this process has released GPUs, and when lock files were made or
   * removed. Run the result to end that.
   */
  Runnable listen(Runnable listener) {
    listeners.add(listener);
    return () -> listeners.remove(listener);
  }

  /** Whether the kernel refused a call, which may go well another time. */
  public static boolean isRefusedCall(Throwable failure) {
    return failure instanceof LastErrorException;
  }

  /** For what must not be forgotten, whatever befalls it. */
  public Retries retries() {
    return retries;
  }

  /** The present on the machine's monotonic clock. */
  public long nowNanos() {
    return gpus.nowNanos();
  }

  /** The GPUs that a claim of this process holds so far. */
  public Set<Integer> gathered() {
    return gathered;
  }

  /**
   * Notes that whoever held a GPU has just left it: a sample from before says nothing about
   * strangers.
   */
  public void freed(int index) {
    freedAtNanos.put(index, gpus.nowNanos());
  }

  /** When a GPU was last known to be left; long ago if never. */
  long freedAtNanos(int index) {
    return freedAtNanos.getOrDefault(index, Long.MIN_VALUE / 2);
  }

  @Override
  public void close() {
    closed = true;
    retries.close();
    waiters.shutdownNow();
    standIns.close();
    try {
      watch.close();
    } catch (IOException e) {
      log.warn("cannot stop watching {}: {}", folder.path(), e.getMessage());
    }
  }

  private WatchService watchFolder() {
    try {
      WatchService service = folder.path().getFileSystem().newWatchService();
      register(service);
      return service;
    } catch (IOException e) {
      throw new IllegalStateException("cannot watch " + folder.path(), e);
    }
  }

  private void register(WatchService service) throws IOException {
    // A rename onto a lock file is a creation, not a deletion.
    folder
        .path()
        .register(
            service, StandardWatchEventKinds.ENTRY_DELETE, StandardWatchEventKinds.ENTRY_CREATE);
  }

  private boolean guardOnce() throws InterruptedException {
    try {
      WatchKey key = watch.poll(lost ? LOST_SECONDS : LOOK_SECONDS, TimeUnit.SECONDS);
      // Other people's files come and go in this folder all the time.
      boolean concerned =
          key == null || key.pollEvents().stream().anyMatch(LockProtocol::concernsALock);
      if (key == null || !key.reset()) {
        // The folder itself may be another one by now.
        register(watch);
      }
      if (concerned) {
        guardAll();
      }
    } catch (ClosedWatchServiceException e) {
      // The process ends.
      return false;
    } catch (IOException e) {
      if (!lost) {
        log.error("cannot watch the lock folder {}: {}", folder.path(), e.toString());
      }
      lost = true;
      TimeUnit.SECONDS.sleep(LOST_SECONDS);
    }
    return !closed;
  }

  private void guardAll() {
    lost = false;
    for (Guarded files : guarded) {
      try {
        lost |= !files.lockReplaced();
      } catch (RuntimeException | Error e) {
        // What is wrong with one file is no reason to leave the others alone.
        log.error("cannot guard a lock file", e);
        lost = true;
      }
    }
    // A claim looks after what it has gathered so far. First our own, then those of others, which
    // takes its time.
    listeners.forEach(Runnable::run);
    if (!closed) {
      standIns.look(gpus.newest().gpus().size());
    }
  }

  private static boolean concernsALock(WatchEvent<?> event) {
    return event.kind() == StandardWatchEventKinds.OVERFLOW
        || event.context().toString().startsWith(LockFolder.PREFIX);
  }
}
