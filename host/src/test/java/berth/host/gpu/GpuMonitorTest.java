package berth.host.gpu;

import static berth.host.gpu.FakeGpus.gpu;
import static berth.host.gpu.FakeGpus.healthy;
import static berth.host.gpu.FakeGpus.lost;
import static org.assertj.core.api.Assertions.assertThat;

import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** {@link GpuMonitor} without its threads: the test decides what happens when. */
class GpuMonitorTest {
  private static final Duration INTERVAL = Duration.ofSeconds(1);
  private static final Duration STALL = Duration.ofSeconds(5);
  private static final Instant NOW = Instant.parse("2024-05-06T07:08:09Z");
  private static final GpuHealth FELL_OFF_THE_BUS =
      new GpuHealth(
          GpuHealth.State.SICK,
          "XID 79, the GPU has fallen off the bus",
          Optional.of(RecoveryAction.NODE_REBOOT),
          "reboot");
  private static final GpuHealth LOST = new GpuHealth(GpuHealth.State.LOST, "lost");
  private static final GpuHealth SILENT_DRIVER =
      new GpuHealth(GpuHealth.State.UNKNOWN, "the driver has not answered for 5.0 s");

  // Near its end, since a clock of nanoseconds may run over.
  private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - Duration.ofSeconds(3).toNanos());
  private final FakeGpus source = new FakeGpus().reports(healthy(0, "a"), healthy(1, "b"));
  private final GpuMonitor monitor =
      new GpuMonitor(
          source,
          new GpuMonitor.Timing(INTERVAL, STALL),
          nanos::get,
          Clock.fixed(NOW, ZoneOffset.UTC));

  @Test
  void saysThatItKnowsNothingBeforeTheFirstSample() throws Exception {
    assertThat(monitor.newest().taken()).isEmpty();
    assertThat(monitor.newest().gpus()).isEmpty();
    assertThat(monitor.newest().problem()).contains("the driver has not answered yet");
    assertThat(monitor.awaitFirstSample(Duration.ZERO)).isFalse();
  }

  @Test
  void keepsTheNewestSampleWithItsMoment() throws Exception {
    long taken = nanos.get();
    monitor.sampleOnce();
    pass(Duration.ofMillis(1500));

    assertThat(monitor.awaitFirstSample(Duration.ZERO)).isTrue();
    assertThat(monitor.newest())
        .isEqualTo(
            new GpuSample(
                Optional.of(new GpuSample.Taken(NOW, taken)),
                Optional.of("1"),
                Optional.empty(),
                true,
                Optional.empty(),
                List.of(healthy(0, "a"), healthy(1, "b")),
                List.of()));
    assertThat(monitor.newest().taken().orElseThrow().age(monitor.nowNanos()))
        .isEqualTo(Duration.ofMillis(1500));
  }

  @Test
  void nobodyKnowsTheGpusOfADriverThatDoesNotAnswerUntilItAnswersAgain() throws Exception {
    monitor.sampleOnce();
    GpuSample answered = monitor.newest();
    source.whileReading(
        () -> {
          monitor.checkForStall();
          assertThat(monitor.newest()).isEqualTo(answered);
          pass(STALL.minusNanos(1));
          monitor.checkForStall();
          assertThat(monitor.newest()).isEqualTo(answered);
          pass(Duration.ofNanos(1));
          monitor.checkForStall();
          assertThat(health()).containsExactly(SILENT_DRIVER, SILENT_DRIVER);
          assertThat(monitor.newest().problem()).contains(SILENT_DRIVER.reason());
          // The sample is as old as it is.
          assertThat(monitor.newest().taken()).isEqualTo(answered.taken());
        });
    monitor.sampleOnce();

    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
    assertThat(monitor.newest().problem()).isEmpty();
  }

  @Test
  void everyStallIsToldOnce() {
    var listener = new RecordingListener();
    monitor.sampleOnce();
    monitor.listen(listener);
    pass(STALL);
    monitor.checkForStall();
    monitor.checkForStall();
    monitor.sampleOnce();
    pass(STALL);
    monitor.checkForStall();

    assertThat(listener.told)
        .containsExactly(
            "sample",
            "a UNKNOWN",
            "b UNKNOWN",
            "sample",
            "a HEALTHY",
            "b HEALTHY",
            "sample",
            "a UNKNOWN",
            "b UNKNOWN",
            "sample");
  }

  @Test
  void aWaitForErrorsMayTakeItsTimeButNotLonger() throws Exception {
    monitor.sampleOnce();
    monitor.awaitError(INTERVAL);

    pass(INTERVAL.plus(STALL).minusNanos(1));
    monitor.checkForStall();
    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
    pass(Duration.ofNanos(1));
    monitor.checkForStall();
    assertThat(health()).containsOnly(SILENT_DRIVER);
  }

  @Test
  void aDriverThatNeverAnsweredIsToldAsAProblem() {
    pass(STALL);
    monitor.checkForStall();

    assertThat(monitor.newest().problem()).contains(SILENT_DRIVER.reason());
    assertThat(monitor.newest().taken()).isEmpty();
  }

  @Test
  void aListenerIsToldTheNewestSampleAtOnceAndThenEverythingInOrder() throws Exception {
    monitor.sampleOnce();
    var listener = new RecordingListener();
    Runnable end = monitor.listen(listener);
    assertThat(listener.told).containsExactly("sample");
    assertThat(listener.samples).containsExactly(monitor.newest());

    monitor.sampleOnce();
    xid("b", 79);
    source.reports(lost(0, "a"), healthy(1, "b"));
    monitor.sampleOnce();
    end.run();
    monitor.sampleOnce();

    assertThat(listener.told)
        .containsExactly("sample", "sample", "b SICK", "sample", "a LOST", "sample");
    assertThat(listener.changes)
        .containsExactly(
            new GpuHealthChange("b", 1, GpuHealth.HEALTHY, FELL_OFF_THE_BUS, NOW),
            new GpuHealthChange("a", 0, GpuHealth.HEALTHY, LOST, NOW));
    assertThat(listener.samples.get(3).gpus().get(0).health()).isEqualTo(LOST);
  }

  @Test
  void theHealthOfGpusWithoutAnIdentityChangesOnlyWhenItChanges() {
    var anotherReason = gpu(1, "", GpuHealth.State.SICK, "no memory");
    source.reports(lost(0, ""), anotherReason);
    monitor.sampleOnce();
    var listener = new RecordingListener();
    monitor.listen(listener);

    monitor.sampleOnce();
    source.reports(lost(0, ""), lost(1, ""));
    monitor.sampleOnce();

    assertThat(listener.changes)
        .containsExactly(new GpuHealthChange("", 1, anotherReason.health(), LOST, NOW));
  }

  @Test
  void aSourceThatFailsUnexpectedlyIsAProblemAndNoEnd() throws Exception {
    monitor.sampleOnce();
    source.fails(new IllegalStateException("cannot read"));
    monitor.sampleOnce();
    assertThat(monitor.newest().gpus()).isEmpty();
    assertThat(monitor.newest().problem()).contains("reading the GPUs failed: cannot read");
    monitor.awaitError(Duration.ZERO);

    source.reports(healthy(0, "a"));
    monitor.sampleOnce();
    assertThat(monitor.newest().problem()).isEmpty();
    assertThat(health()).containsExactly(GpuHealth.HEALTHY);
  }

  @Test
  void tellsAProblemOfTheSource() {
    source.reportsProblem("no driver");
    monitor.sampleOnce();

    assertThat(monitor.newest().problem()).contains("no driver");
    assertThat(monitor.newest().gpus()).isEmpty();
  }

  @Test
  void theEndIsToldOnceAndNothingAfterIt() throws Exception {
    monitor.sampleOnce();
    var listener = new RecordingListener();
    monitor.listen(listener);
    monitor.close();
    monitor.close();
    monitor.sampleOnce();
    xid("a", 79);
    pass(STALL.multipliedBy(2));
    monitor.checkForStall();

    assertThat(listener.told).containsExactly("sample", "stopped");
    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
  }

  @Test
  void aListenerThatComesAfterTheEndIsToldJustThat() {
    monitor.sampleOnce();
    monitor.close();
    var listener = new RecordingListener();
    monitor.listen(listener).run();

    assertThat(listener.told).containsExactly("stopped");
  }

  private void pass(Duration time) {
    nanos.addAndGet(time.toNanos());
  }

  private void xid(String uuid, int code) throws InterruptedException {
    source.reportsXid(uuid, code);
    monitor.awaitError(Duration.ZERO);
  }

  private List<GpuHealth> health() {
    return monitor.newest().gpus().stream().map(Gpu::health).toList();
  }

  private static final class RecordingListener implements GpuListener {
    final List<String> told = new ArrayList<>();
    final List<GpuSample> samples = new ArrayList<>();
    final List<GpuHealthChange> changes = new ArrayList<>();

    @Override
    public void sampled(GpuSample sample) {
      told.add("sample");
      samples.add(sample);
    }

    @Override
    public void healthChanged(GpuHealthChange change) {
      told.add(change.uuid() + " " + change.after().state());
      changes.add(change);
    }

    @Override
    public void stopped() {
      told.add("stopped");
    }
  }
}
