package berth.server.run;

import berth.rpc.Vitals;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.ClosedWatchServiceException;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.StandardWatchEventKinds;
import java.nio.file.WatchKey;
import java.nio.file.WatchService;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tells when files in the folders of runs grow or appear: one thread for all. */
final class SpoolWatch implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(SpoolWatch.class);

  private final WatchService service;
  private final Map<WatchKey, Runnable> actions = new ConcurrentHashMap<>();

  SpoolWatch(Vitals vitals) {
    try {
      service = FileSystems.getDefault().newWatchService();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    vitals.start("spool-watch", this::watchOnce);
  }

  /** Runs {@code action} whenever something changes in {@code folder}, until the result is run. */
  Runnable watch(Path folder, Runnable action) {
    try {
      WatchKey key =
          folder.register(
              service, StandardWatchEventKinds.ENTRY_CREATE, StandardWatchEventKinds.ENTRY_MODIFY);
      actions.put(key, action);
      return () -> {
        actions.remove(key);
        key.cancel();
      };
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    try {
      service.close();
    } catch (IOException e) {
      log.warn("cannot stop watching: {}", e.getMessage());
    }
  }

  private boolean watchOnce() throws InterruptedException {
    WatchKey key;
    try {
      key = service.take();
    } catch (ClosedWatchServiceException e) {
      return false;
    }
    key.pollEvents();
    // Before the action: what changes while it runs is told again.
    key.reset();
    Runnable action = actions.get(key);
    if (action != null) {
      try {
        action.run();
      } catch (RuntimeException e) {
        log.error("reading the output of a run failed", e);
      }
    }
    return true;
  }
}
