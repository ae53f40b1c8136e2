package berth.registry.directory;

import static berth.registry.directory.SampleServers.heartbeat;
import static berth.registry.directory.SampleServers.registration;
import static berth.registry.directory.SampleServers.status;

import berth.rpc.BerthException;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** Servers that report to directories as they should, each in a thread, until they are closed. */
final class RegisteredFleet implements AutoCloseable {
  /**
   * One of them. It goes to the next directory when one fails, and registers when it is unknown.
   */
  static final class Reporter {
    private final String name;
    private final String address;
    private final List<? extends Directory> directories;
    private int current;
    private String lease = "";
    private long generation;
    private int beats;
    private volatile int registrations;
    private volatile int failures;
    private volatile long lastHeard = System.nanoTime();
    private volatile long longestSilence;

    Reporter(int number, List<? extends Directory> directories) {
      this.name = "gpu" + number;
      this.address = "h" + number + ":18812";
      this.directories = directories;
      this.current = number % directories.size();
    }

    void report() {
      try {
        Directory directory = directories.get(current);
        if (lease.isEmpty()) {
          RegisterResponse response =
              directory.register(
                  registration(name, address, "i-" + name, 4).toBuilder()
                      .setGeneration(generation)
                      .build());
          lease = response.getLeaseId();
          generation = response.getGeneration();
          registrations++;
        } else {
          // Something new now and then.
          var beat = heartbeat(name, "i-" + name, lease).toBuilder();
          HeartbeatResponse response =
              directory.heartbeat(
                  ++beats % 3 == 0 ? beat.setStatus(status(4, beats % 5)).build() : beat.build());
          if (!response.getKnown()) {
            lease = "";
          }
        }
        long now = System.nanoTime();
        longestSilence = Math.max(longestSilence, now - lastHeard);
        lastHeard = now;
      } catch (BerthException e) {
        failures++;
        current = (current + 1) % directories.size();
      }
    }
  }

  private final Duration interval;
  private final CountDownLatch closed = new CountDownLatch(1);
  private final List<Reporter> reporters;
  private final List<Thread> threads;

  RegisteredFleet(int size, Duration interval, List<? extends Directory> directories) {
    this.interval = interval;
    reporters = IntStream.range(0, size).mapToObj(i -> new Reporter(i, directories)).toList();
    threads = reporters.stream().map(reporter -> new Thread(() -> run(reporter))).toList();
    threads.forEach(Thread::start);
  }

  private void run(Reporter reporter) {
    try {
      do {
        reporter.report();
      } while (!closed.await(interval.toNanos(), TimeUnit.NANOSECONDS));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Whether all of them have been answered after a moment. */
  boolean heardSince(long nanoTime) {
    return reporters.stream().allMatch(reporter -> reporter.lastHeard - nanoTime > 0);
  }

  int registrations() {
    return reporters.stream().mapToInt(reporter -> reporter.registrations).sum();
  }

  int failures() {
    return reporters.stream().mapToInt(reporter -> reporter.failures).sum();
  }

  /** The longest time that one of them has not been answered, beyond the pause it makes. */
  Duration longestGap() {
    long longest = reporters.stream().mapToLong(r -> r.longestSilence).max().orElseThrow();
    return Duration.ofNanos(longest).minus(interval);
  }

  void forgetGaps() {
    reporters.forEach(reporter -> reporter.longestSilence = 0);
  }

  /** Lets all of them fall silent. */
  void stop() {
    closed.countDown();
    try {
      for (Thread thread : threads) {
        thread.join();
      }
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Override
  public void close() {
    stop();
  }
}
