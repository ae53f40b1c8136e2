package berth.server.reservation;

import static berth.server.reservation.Box.asking;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.lock.GpuWish;
import berth.host.lock.LockFile;
import berth.host.lock.LockFolder;
import berth.metrics.ShownMetrics;
import berth.server.reservation.Box.Outcome;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReservationMetricsTest {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  @TempDir private Path folder;
  private Box box;
  private Reservations daemon;

  @BeforeEach
  void open() {
    box = new Box(folder, Box.gpus(4));
    daemon = box.daemon();
  }

  @AfterEach
  void close() {
    box.close();
  }

  @Test
  void showsEveryStateOfGpusAlsoThoseThatNoneIsIn() {
    assertGpus(4, 0, 0, 0, 0);
    assertThat(
            value(
                "berth_gpu_state{gpu=\"3\",model=\"Simulated"
                    + " A100\",state=\"free\",uuid=\"GPU-3\"}"))
        .isEqualTo(1);
    assertThat(
            value(
                "berth_gpu_state{gpu=\"3\",model=\"Simulated"
                    + " A100\",state=\"unhealthy\",uuid=\"GPU-3\"}"))
        .isEqualTo(0);
  }

  @Test
  void showsWhatGpusAreUsedFor() throws Exception {
    Outcome.of(daemon, asking(1)).get();
    box.describe(
        Box.gpus(4)
            .replace("gpu GPU-1", "gpu GPU-1\n  process 4711 100")
            .replace("gpu GPU-2", "gpu GPU-2\n  status 15"));
    try (LockFile other = LockFolder.tryLock(box.lock(3)).orElseThrow()) {
      assertThat(other.path()).isEqualTo(box.lock(3));
      assertGpus(0, 1, 1, 1, 1);
    }
    assertGpus(1, 1, 0, 1, 1);
  }

  @Test
  void countsWhatWasGrantedAndHowLongThatTook() {
    Reservation first = Outcome.of(daemon, asking(4)).get();
    Outcome second = Outcome.of(daemon, asking(1)).awaitQueued();
    await().atMost(PATIENCE).until(() -> value("berth_reservation_oldest_wait_seconds") > 0.2);
    assertThat(value("berth_reservations_held")).isEqualTo(1);
    assertThat(value("berth_reservations_waiting")).isEqualTo(1);
    assertThat(value("berth_reservations_granted_total")).isEqualTo(1);

    daemon.release(first.id());
    second.get();

    assertThat(value("berth_reservations_waiting")).isEqualTo(0);
    assertThat(value("berth_reservation_oldest_wait_seconds")).isEqualTo(0);
    assertThat(value("berth_reservations_granted_total")).isEqualTo(2);
    assertThat(value("berth_reservation_wait_seconds_count")).isEqualTo(2);
    assertThat(value("berth_reservation_wait_seconds_sum")).isGreaterThan(0.2);
    assertThat(ended("released")).isEqualTo(1);
  }

  @Test
  void aReservationOfPortsAloneHasNotWaited() {
    daemon.reserve(
        new ReservationRequest(
            Optional.empty(),
            2,
            Optional.empty(),
            new Lifetime.Renewals(Duration.ofMinutes(1)),
            new Reservation.Owner("ada", "laptop"),
            "",
            ""),
        new Outcome());
    assertThat(value("berth_reservations_granted_total")).isEqualTo(1);
    assertThat(value("berth_reservation_wait_seconds_sum")).isEqualTo(0);
  }

  @Test
  void countsTheLeasesThatNobodyRenewed() {
    Lifetime brief = new Lifetime.Renewals(Duration.ofMillis(50));
    Outcome forgotten = Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), brief, ""));
    Outcome left =
        Outcome.of(
            daemon, Box.request(GpuWish.of(1), Optional.empty(), new Lifetime.OfStream(), ""));
    left.get();
    left.leave();
    forgotten.awaitEnd();
    left.awaitEnd();
    assertThat(ended("expired")).isEqualTo(1);
    assertThat(ended("caller_gone")).isEqualTo(1);
    assertThat(ended("keeper_killed")).isEqualTo(0);
  }

  @Test
  void aLeaseThatEndsWhileARunUsesItIsCountedOnce() throws Exception {
    Lifetime brief = new Lifetime.Lasting(Duration.ofMillis(300));
    Outcome outcome = Outcome.of(daemon, Box.request(GpuWish.of(1), Optional.empty(), brief, ""));
    CompletableFuture<Void> told = new CompletableFuture<>();
    RunHold hold = daemon.hold(outcome.get().id(), "run-a", () -> told.complete(null));
    told.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    hold.release();
    outcome.awaitEnd();
    assertThat(ended("expired")).isEqualTo(1);
    assertThat(ended("run_ended")).isEqualTo(0);
    assertThat(value("berth_reservations_held")).isEqualTo(0);
  }

  @Test
  void showsThatItGrantsNothing() {
    assertThat(value("berth_draining")).isEqualTo(0);
    daemon.setDraining(true);
    assertThat(value("berth_draining")).isEqualTo(1);
  }

  private void assertGpus(int free, int reserved, int locked, int used, int unhealthy) {
    assertThat(ShownMetrics.lines(box.metrics()))
        .filteredOn(line -> line.startsWith("berth_gpus"))
        .containsExactlyInAnyOrder(
            gpus("free", free),
            gpus("reserved", reserved),
            gpus("locked", locked),
            gpus("used", used),
            gpus("unhealthy", unhealthy));
  }

  private static String gpus(String state, int count) {
    return "berth_gpus{state=\"" + state + "\"} " + count + ".0";
  }

  private double ended(String reason) {
    return value("berth_reservations_ended_total{reason=\"" + reason + "\"}");
  }

  private double value(String series) {
    return ShownMetrics.value(box.metrics(), series);
  }
}
