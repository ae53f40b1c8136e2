package berth.host.lock;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whoever makes a new lock file waits 50 ms, so those who guard the old one must be faster. */
class StandInsTest {
  private static final int GPUS = 8;

  @TempDir private Path path;
  private final AtomicInteger pauses = new AtomicInteger();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Retries retries = new Retries(threads);
  private final List<LockFile> held = new ArrayList<>();
  private LockFolder folder;

  @BeforeEach
  void holdAll() {
    folder = new LockFolder(path);
    folder.prepare(GPUS);
    for (int gpu = 0; gpu < GPUS; gpu++) {
      // As berth lock does: without a process in its name.
      held.add(LockFolder.tryLock(folder.gpu(gpu)).orElseThrow());
    }
  }

  @AfterEach
  void close() {
    held.forEach(LockFile::close);
    retries.close();
    threads.shutdownNow();
  }

  @Test
  void manyHoldersAreWaitedForAllAtOnce() throws Exception {
    try (StandIns standIns = new StandIns(folder, retries, gpu -> false, this::pause)) {
      standIns.look(GPUS);
      removeAll();

      standIns.look(GPUS);

      assertThat(pauses).hasValue(1);
      for (int gpu = 0; gpu < GPUS; gpu++) {
        assertThat(LockFolder.tryLock(folder.gpu(gpu))).isEmpty();
      }
    }
  }

  @Test
  void nobodyWaitsForWhatThisProcessGuardsItself() throws Exception {
    try (StandIns standIns = new StandIns(folder, retries, gpu -> true, this::pause)) {
      standIns.look(GPUS);
      removeAll();

      standIns.look(GPUS);

      assertThat(pauses).hasValue(0);
    }
  }

  @Test
  void whatAnotherDaemonHasLockedAnewMeanwhileIsLeftToIt() throws Exception {
    List<LockFile> anew = new ArrayList<>();
    Runnable guarding =
        () -> {
          for (int gpu = 0; gpu < GPUS; gpu++) {
            anew.add(
                LockFolder.relock(folder.gpu(gpu), List.of(LockFile.Range.WHOLE)).orElseThrow());
          }
        };
    try (StandIns standIns = new StandIns(folder, retries, gpu -> false, guarding)) {
      standIns.look(GPUS);
      removeAll();
      standIns.look(GPUS);

      anew.forEach(LockFile::close);

      for (int gpu = 0; gpu < GPUS; gpu++) {
        LockFolder.tryLock(folder.gpu(gpu)).orElseThrow().close();
      }
    }
  }

  private void pause() {
    pauses.incrementAndGet();
  }

  private void removeAll() throws Exception {
    for (int gpu = 0; gpu < GPUS; gpu++) {
      Files.delete(folder.gpu(gpu));
    }
  }
}
