package berth.server.reservation;

import berth.server.gpu.GpuMonitor;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all claims of this process share: the lock files, the line before them, and the knowledge of
 * what this process holds. It also guards what is held against cleaners that remove lock files. Any
 * thread may call.
 */
final class LockProtocol implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(LockProtocol.class);

  private final LockFolder folder;
  private final TicketQueue queue;
  private final GpuMonitor gpus;
  private final boolean ignoreStrangers;
  private final Set<HeldGpus> held = ConcurrentHashMap.newKeySet();
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private final Set<Integer> gathered = ConcurrentHashMap.newKeySet();
  private final Map<Integer, Long> freedAtNanos = new ConcurrentHashMap<>();
  private final WatchService watch;

  // Threads that wait in the kernel, one for each awaited lock file.
  private final ExecutorService waiters =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "lock-waiter");
            thread.setDaemon(true);
            return thread;
          });

  LockProtocol(LockFolder folder, GpuMonitor gpus, boolean ignoreStrangers) {
    this.folder = folder;
    this.queue = new TicketQueue(folder);
    this.gpus = gpus;
    this.ignoreStrangers = ignoreStrangers;
    this.watch = startGuard();
  }

  LockFolder folder() {
    return folder;
  }

  TicketQueue queue() {
    return queue;
  }

  GpuMonitor gpus() {
    return gpus;
  }

  boolean ignoresStrangers() {
    return ignoreStrangers;
  }

  ExecutorService waiters() {
    return waiters;
  }

  /** Notes that this process holds {@code gpus} from now on. */
  void remember(HeldGpus gpus) {
    held.add(gpus);
    // It may have happened between the locking and now.
    gpus.relockReplaced();
  }

  /** Notes that this process has released {@code gpus}, and tells who listens. */
  void forget(HeldGpus gpus) {
    held.remove(gpus);
    listeners.forEach(Runnable::run);
  }

  /** Whether this process holds a GPU. Those who listen are told when it no longer does. */
  boolean holds(int index) {
    return held.stream().anyMatch(gpus -> gpus.has(index));
  }

  /** Runs {@code listener} whenever this process has released GPUs. Run the result to end that. */
  Runnable listen(Runnable listener) {
    listeners.add(listener);
    return () -> listeners.remove(listener);
  }

  /** The GPUs that a claim of this process holds so far. */
  Set<Integer> gathered() {
    return gathered;
  }

  /**
   * Notes that whoever held a GPU has just left it: a sample from before says nothing about
   * strangers.
   */
  void freed(int index) {
    freedAtNanos.put(index, gpus.nowNanos());
  }

  /** When a GPU was last known to be left; long ago if never. */
  long freedAtNanos(int index) {
    return freedAtNanos.getOrDefault(index, Long.MIN_VALUE / 2);
  }

  @Override
  public void close() {
    waiters.shutdownNow();
    try {
      watch.close();
    } catch (IOException e) {
      log.warn("cannot stop watching {}: {}", folder.path(), e.getMessage());
    }
  }

  private WatchService startGuard() {
    try {
      WatchService service = folder.path().getFileSystem().newWatchService();
      // A rename onto a lock file is a creation, not a deletion.
      folder
          .path()
          .register(
              service, StandardWatchEventKinds.ENTRY_DELETE, StandardWatchEventKinds.ENTRY_CREATE);
      Thread guard = new Thread(() -> guard(service), "lock-guard");
      guard.setDaemon(true);
      guard.start();
      return service;
    } catch (IOException e) {
      throw new IllegalStateException("cannot watch " + folder.path(), e);
    }
  }

  private void guard(WatchService service) {
    try {
      while (true) {
        WatchKey key = service.take();
        // Other people's files come and go in this folder all the time.
        if (key.pollEvents().stream().anyMatch(LockProtocol::concernsALock)) {
          held.forEach(HeldGpus::relockReplaced);
        }
        if (!key.reset()) {
          log.error("the lock folder {} is gone", folder.path());
          return;
        }
      }
    } catch (InterruptedException | ClosedWatchServiceException e) {
      // The process ends.
    }
  }

  private static boolean concernsALock(WatchEvent<?> event) {
    return event.kind() == StandardWatchEventKinds.OVERFLOW
        || event.context().toString().startsWith(LockFolder.GPU_PREFIX);
  }
}
