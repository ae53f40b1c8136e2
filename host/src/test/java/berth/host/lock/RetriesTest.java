package berth.host.lock;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What must not be forgotten is done, if not at once. */
class RetriesTest {
  private final AtomicInteger threadsToRefuse = new AtomicInteger();
  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(0, 10, 1, TimeUnit.SECONDS, new SynchronousQueue<>(), this::thread);
  private final Retries retries = new Retries(threads);

  @AfterEach
  void close() {
    retries.close();
    threads.shutdownNow();
  }

  @Test
  void aTaskForWhichThereIsNoThreadIsDoneWhenThereIsOne() throws Exception {
    CountDownLatch done = new CountDownLatch(1);
    threadsToRefuse.set(2);

    retries.later(done::countDown);

    assertThat(done.await(60, TimeUnit.SECONDS)).isTrue();
    assertThat(threadsToRefuse).hasValue(0);
  }

  @Test
  void aTaskThatFailsIsDoneAgainAndOnlyUntilItSucceeds() throws Exception {
    AtomicInteger runs = new AtomicInteger();
    CountDownLatch another = new CountDownLatch(4);
    retries.now(
        () -> {
          if (runs.incrementAndGet() == 1) {
            throw new StackOverflowError();
          }
        });
    assertThat(runs).hasValue(1);

    retries.later(
        () -> {
          another.countDown();
          if (another.getCount() > 0) {
            throw new IllegalStateException("not yet");
          }
        });

    assertThat(another.await(60, TimeUnit.SECONDS)).isTrue();
    assertThat(runs).hasValue(2);
  }

  private Thread thread(Runnable task) {
    if (threadsToRefuse.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
      throw new OutOfMemoryError("unable to create native thread");
    }
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    return thread;
  }
}
