package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuSample;
import berth.host.lock.LockedGpu;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Less than 5 % of GPUs 0 and 1 for 30 seconds. */
class IdleWatchTest {
  private static final int SILENT = -1;

  private long seconds = 1000;
  private int told;
  private final IdleWatch watch = watchOf(0, 1);

  @Test
  void noticesGpusThatAreIdleForTheWholeTimeAndSaysSoOnce() {
    watch.sampled(sample(0, 4));
    after(29, sample(4, 0));
    assertThat(told).isZero();
    after(1, sample(0, 0));
    assertThat(told).isEqualTo(1);
    after(60, sample(0, 0));
    assertThat(told).isEqualTo(1);
  }

  @Test
  void oneGpuThatIsUsedForAMomentBeginsTheCountAnew() {
    watch.sampled(sample(0, 0));
    after(29, sample(0, 5));
    after(1, sample(0, 0));
    after(29, sample(0, 0));
    assertThat(told).isZero();
    after(1, sample(0, 0));
    assertThat(told).isEqualTo(1);
  }

  @Test
  void oneSampleAfterALongTimeIsNotALongTimeOfIdleness() {
    watch.sampled(sample(90, 90));
    after(100, sample(0, 0));
    assertThat(told).isZero();
  }

  @Test
  void otherGpusDoNotMatter() {
    watch.sampled(sample(0, 0, 99));
    after(30, sample(0, 0, 99));
    assertThat(told).isEqualTo(1);
  }

  @Test
  void aGpuThatSaysNothingOfItsUseIsUsed() {
    watch.sampled(sample(0, SILENT));
    after(30, sample(0, SILENT));
    after(30, sample(0));
    assertThat(told).isZero();
  }

  @Test
  void whatTheDriverSaidBeforeItHungProvesNothing() {
    watch.sampled(sample(0, 0));
    after(10, sample(Optional.of("the driver has not answered for 5.0 s"), 0, 0));
    after(20, sample(0, 0));
    assertThat(told).isZero();
    after(30, sample(0, 0));
    assertThat(told).isEqualTo(1);
  }

  @Test
  void aRunWithoutGpusIsNeverIdle() {
    IdleWatch ofNone = watchOf();
    ofNone.sampled(sample(0, 0));
    seconds += 30;
    ofNone.sampled(sample(0, 0));
    assertThat(told).isZero();
  }

  private IdleWatch watchOf(int... gpus) {
    return new IdleWatch(
        new Limits.Idle(5, Duration.ofSeconds(30)),
        Arrays.stream(gpus).mapToObj(index -> new LockedGpu(index, "GPU-" + index)).toList(),
        () -> Duration.ofSeconds(seconds).toNanos(),
        () -> told++);
  }

  private void after(int more, GpuSample sample) {
    seconds += more;
    watch.sampled(sample);
  }

  /** GPUs from 0 on with these percentages. */
  private static GpuSample sample(int... percent) {
    return sample(Optional.empty(), percent);
  }

  private static GpuSample sample(Optional<String> problem, int... percent) {
    return new GpuSample(
        Optional.of(new GpuSample.Taken(Instant.EPOCH, 0)),
        Optional.empty(),
        Optional.empty(),
        true,
        problem,
        IntStream.range(0, percent.length).mapToObj(index -> gpu(index, percent[index])).toList(),
        List.of());
  }

  private static Gpu gpu(int index, int percent) {
    return new Gpu(
        index,
        "GPU-" + index,
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        percent == SILENT ? Optional.empty() : Optional.of(new Gpu.Utilization(percent, 90)),
        OptionalInt.empty(),
        OptionalInt.empty(),
        OptionalInt.empty(),
        Optional.empty(),
        OptionalLong.empty(),
        OptionalLong.empty(),
        Optional.empty(),
        new GpuHealth(GpuHealth.State.HEALTHY, ""));
  }
}
