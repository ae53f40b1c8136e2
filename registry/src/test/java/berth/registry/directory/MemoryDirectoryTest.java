package berth.registry.directory;

import static berth.registry.directory.SampleServers.registration;
import static org.assertj.core.api.Assertions.assertThat;

import berth.metrics.Metrics;
import berth.rpc.Vitals;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class MemoryDirectoryTest extends DirectoryContract {
  private final Metrics metrics = new Metrics();
  private final Directory directory =
      new MemoryDirectory(TERMS, new DirectoryMetrics(metrics), new Vitals());

  @AfterEach
  void close() {
    directory.close();
  }

  @Override
  Directory directory() {
    return directory;
  }

  @Override
  Metrics metrics() {
    return metrics;
  }

  @Test
  void aLeaseEndsWhenItsTimeIsOver() {
    AtomicLong clock = new AtomicLong();
    try (MemoryDirectory other =
        new MemoryDirectory(TERMS, new DirectoryMetrics(new Metrics()), new Vitals(), clock::get)) {
      other.register(registration("gpu01", "h1:18812", "a", 2));
      for (int tenths = 1; tenths < 20; tenths++) {
        pass(clock, other, 100);
        assertThat(other.roster().size()).isEqualTo(1);
      }

      pass(clock, other, 100);

      assertThat(other.roster().size()).isZero();
    }
  }

  @Test
  void aRegistryThatStoodStillBlamesNobodyForIt() {
    AtomicLong clock = new AtomicLong();
    try (MemoryDirectory other =
        new MemoryDirectory(TERMS, new DirectoryMetrics(new Metrics()), new Vitals(), clock::get)) {
      other.register(registration("gpu01", "h1:18812", "a", 2));

      pass(clock, other, 60_000);
      assertThat(other.roster().size()).isEqualTo(1);

      pass(clock, other, 900);
      pass(clock, other, 900);
      pass(clock, other, 900);
      assertThat(other.roster().size()).isZero();
    }
  }

  private static void pass(AtomicLong clock, MemoryDirectory directory, long millis) {
    clock.addAndGet(Duration.ofMillis(millis).toNanos());
    directory.sweep();
  }
}
