package berth.server.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuSample;
import berth.rpc.Messages;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GpuHistory;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class GpuPastTest {
  private static final Instant BEGIN = Instant.parse("2026-11-16T06:00:00Z");

  private final GpuPast past = new GpuPast();

  private void sample(double second, Gpu... gpus) {
    Duration time = Duration.ofMillis(Math.round(second * 1000));
    past.sampled(
        new GpuSample(
            Optional.of(new GpuSample.Taken(BEGIN.plus(time), time.toNanos())),
            Optional.empty(),
            Optional.empty(),
            true,
            Optional.empty(),
            List.of(gpus),
            List.of()));
  }

  private static Gpu gpu(String uuid, int utilization) {
    return new Gpu(
        0,
        uuid,
        Optional.empty(),
        Optional.empty(),
        Optional.of(new Gpu.Memory(80L << 30, 3L << 20, 1)),
        Optional.of(new Gpu.Utilization(utilization, 0)),
        OptionalInt.empty(),
        OptionalInt.of(61_700),
        OptionalInt.empty(),
        Optional.empty(),
        OptionalLong.empty(),
        OptionalLong.empty(),
        Optional.empty(),
        GpuHealth.HEALTHY);
  }

  @Test
  void knowsNothingBeforeTheFirstSample() {
    past.sampled(GpuSample.before(true));

    assertThat(message().hasEnd()).isFalse();
    assertThat(message().getGpusCount()).isZero();
  }

  private GetGpuHistoryResponse message() {
    return past.message(Duration.ofSeconds(1000).toNanos());
  }

  @Test
  void keepsTheLastValueOfEveryTwoSeconds() {
    IntStream.range(0, 7).forEach(i -> sample(i + 0.5, gpu("GPU-a", i)));

    assertThat(message().getGpus(0).getUtilizationPercentList()).containsExactly(1, 3, 5, 6);
    assertThat(message().getStep()).isEqualTo(Messages.duration(Duration.ofSeconds(2)));
    assertThat(message().getAge()).isEqualTo(Messages.duration(Duration.ofMillis(993_500)));
  }

  @Test
  void aValueHoldsUntilTheNextButNotForLong() {
    sample(0, gpu("GPU-a", 1));
    sample(6, gpu("GPU-a", 2));
    sample(30, gpu("GPU-a", 3));

    assertThat(message().getGpus(0).getUtilizationPercentList())
        .containsExactly(1, 1, 1, 2, 2, 2, 2, 2, -1, -1, -1, -1, -1, -1, -1, 3);
  }

  @Test
  void keepsTheLastFiveMinutes() {
    IntStream.range(0, 500).forEach(i -> sample(2 * i, gpu("GPU-a", i % 100)));

    GetGpuHistoryResponse message = message();
    assertThat(message.getGpus(0).getUtilizationPercentList()).hasSize(150).endsWith(99);
    assertThat(message.getEnd()).isEqualTo(Messages.timestamp(BEGIN.plusSeconds(998)));
  }

  @Test
  void whatWasNotKnownIsMarked() {
    sample(0, gpu("GPU-a", 5));
    sample(2, Gpu.silent(0, "GPU-a", Optional.empty(), Optional.empty(), GpuHealth.HEALTHY));
    sample(4, gpu("GPU-a", 7), gpu("GPU-b", 9));

    GpuHistory first = message().getGpus(0);
    assertThat(first.getUtilizationPercentList()).containsExactly(5, -1, 7);
    assertThat(first.getMemoryMebibytesList()).containsExactly(3, -1, 3);
    assertThat(first.getTemperatureCelsiusList()).containsExactly(-1, -1, -1);
    assertThat(first.getPowerWattsList()).containsExactly(62, -1, 62);
    assertThat(message().getGpus(1).getUtilizationPercentList()).containsExactly(-1, -1, 9);
  }
}
