package berth.host.gpu;

import static berth.host.gpu.FakeGpus.gpu;
import static berth.host.gpu.FakeGpus.healthy;
import static berth.host.gpu.FakeGpus.lost;
import static berth.host.gpu.FakeGpus.needing;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** When a GPU is out of service and when it comes back. The test decides what happens when. */
class GpuRecoveryTest {
  private static final Duration LONG = Duration.ofDays(7);
  private static final GpuHealth WELL = GpuHealth.HEALTHY.needing(RecoveryAction.NONE, "");

  private final AtomicLong nanos = new AtomicLong();
  private final FakeGpus source = new FakeGpus().reports(healthy(0, "a"), healthy(1, "b"));
  private final Kept kept = new Kept();
  private GpuMonitor monitor = monitor();

  @Test
  void aCriticalErrorTakesItsGpuOutOfServiceAtOnceAndSaysWhatToDo() throws Exception {
    monitor.sampleOnce();
    xid("b", 79);

    assertThat(health())
        .containsExactly(
            GpuHealth.HEALTHY,
            sick("XID 79, the GPU has fallen off the bus", RecoveryAction.NODE_REBOOT, "reboot"));
    assertThat(health().get(1))
        .hasToString("sick: XID 79, the GPU has fallen off the bus; to bring it back: reboot");
  }

  @ParameterizedTest
  @ValueSource(ints = {48, 63, 64, 74, 79, 94, 95, 119, 120, 140})
  void timeHealsNoGpuThatNeedsAResetOrAReboot(int code) throws Exception {
    monitor.sampleOnce();
    xid("b", code);
    GpuHealth sick = health().get(1);
    assertThat(sick.action().orElseThrow())
        .isEqualTo(code == 79 ? RecoveryAction.NODE_REBOOT : RecoveryAction.GPU_RESET);

    for (int i = 0; i < 3; i++) {
      pass(LONG);
      monitor.sampleOnce();
      assertThat(health()).containsExactly(GpuHealth.HEALTHY, sick);
    }
    assertThat(monitor.heal("1", false).health()).isEqualTo(GpuHealth.HEALTHY);
    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
    monitor.sampleOnce();
    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
  }

  @ParameterizedTest
  @ValueSource(ints = {13, 31, 43, 45, 68, 109})
  void aFaultOfTheApplicationNeverTakesAGpuOut(int code) throws Exception {
    monitor.sampleOnce();
    var states = new ArrayList<GpuHealth.State>();
    monitor.listen(new HealthListener(states));
    xid("a", code);
    monitor.sampleOnce();
    source.reports(needing(0, "a", RecoveryAction.NONE), healthy(1, "b"));
    monitor.sampleOnce();
    states.clear();
    xid("a", code);
    monitor.sampleOnce();

    assertThat(states).isEmpty();
    assertThat(health()).containsExactly(WELL, GpuHealth.HEALTHY);
    assertThat(kept.outages).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(ints = {32, 69, 92, 137})
  void anErrorAfterWhichTheCatalogueWantsNothingLeavesTheGpuInService(int code) throws Exception {
    monitor.sampleOnce();
    xid("a", code);

    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
  }

  @Test
  void anErrorThatNoCatalogueHasWaitsForSomebodyToLook() throws Exception {
    monitor.sampleOnce();
    xid("a", 7777);
    pass(LONG);
    monitor.sampleOnce();

    assertThat(health().get(0))
        .isEqualTo(
            sick(
                "XID 7777",
                RecoveryAction.INSPECT,
                "see dmesg and nvidia-smi -q -i 0, then berth server heal 0"));
  }

  @Test
  void theWorstOfSeveralErrorsCounts() throws Exception {
    monitor.sampleOnce();
    xid("a", 48);
    xid("a", 79);
    xid("a", 94);

    assertThat(health().get(0).reason()).startsWith("XID 79");
    assertThat(health().get(0).advice()).isEqualTo("reboot");
  }

  @ParameterizedTest
  @CsvSource(
      textBlock =
          """
          GPU_RESET       | stop berthd, nvidia-smi --gpu-reset -i 1, start berthd
          DRAIN_AND_RESET | let its work finish, stop berthd, nvidia-smi --gpu-reset -i 1, start berthd
          DRAIN_P2P       | end the programs that use it together with other GPUs
          NODE_REBOOT     | reboot
          INSPECT         | see dmesg and nvidia-smi -q -i 1
          """,
      delimiter = '|')
  void aGpuIsOutOfServiceWhileTheDriverAsksForARecovery(RecoveryAction word, String advice) {
    source.reports(healthy(0, "a"), needing(1, "b", RecoveryAction.NONE));
    monitor.sampleOnce();
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, WELL);

    source.reports(healthy(0, "a"), needing(1, "b", word));
    monitor.sampleOnce();
    GpuHealth out = sick("the driver requests a recovery action", word, advice);
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, out);
    pass(LONG);
    monitor.sampleOnce();
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, out);

    source.reports(healthy(0, "a"), needing(1, "b", RecoveryAction.NONE));
    monitor.sampleOnce();
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, WELL);
  }

  @ParameterizedTest
  @ValueSource(ints = {48, 79, 7777})
  void aDriverThatAsksForNothingAfterAnErrorBringsTheGpuBackWithTheNextSample(int code)
      throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE));
    monitor.sampleOnce();
    xid("a", code);
    assertThat(health().get(0).state()).isEqualTo(GpuHealth.State.SICK);

    monitor.sampleOnce();
    assertThat(health()).containsExactly(WELL);
    assertThat(kept.outages).isEmpty();
  }

  @Test
  void theDriversWordCountsMoreThanTheCatalogueAndKeepsTheErrorAsItsReason() throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE));
    monitor.sampleOnce();
    xid("a", 95);
    source.reports(needing(0, "a", RecoveryAction.NODE_REBOOT));
    monitor.sampleOnce();

    assertThat(health())
        .containsExactly(
            sick("XID 95, uncontained memory error", RecoveryAction.NODE_REBOOT, "reboot"));
  }

  @Test
  void aDriverThatLosesItsWordDoesNotBringTheGpuBack() {
    source.reports(needing(0, "a", RecoveryAction.GPU_RESET));
    monitor.sampleOnce();
    source.reports(healthy(0, "a"));
    monitor.sampleOnce();
    assertThat(health().get(0).state()).isEqualTo(GpuHealth.State.SICK);
    // Nobody else will say that it is done.
    assertThat(health().get(0).advice()).endsWith(", berth server heal 0");

    monitor.heal("a", false);
    assertThat(health()).containsExactly(GpuHealth.HEALTHY);
  }

  @Test
  void theNewsThatTheActionChangedMakesTheDriverBeReadAtOnce() throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE));
    monitor.sampleOnce();
    xid("a", 154);

    assertThat(monitor.sampleWanted()).isTrue();
    assertThat(health()).containsExactly(WELL);
  }

  @Test
  void aGpuThatAskedForAResetByItsErrorIsBackWhenItAnswers() throws Exception {
    monitor.sampleOnce();
    xid("b", 48);
    GpuHealth resetRequired =
        new GpuHealth(
            GpuHealth.State.LOST, "requires reset", Optional.of(RecoveryAction.GPU_RESET), "");
    source.reports(
        healthy(0, "a"), Gpu.silent(1, "b", Optional.empty(), Optional.empty(), resetRequired));
    monitor.sampleOnce();
    assertThat(health().get(1).state()).isEqualTo(GpuHealth.State.LOST);
    assertThat(health().get(1).advice()).startsWith("stop berthd, nvidia-smi --gpu-reset -i 1");

    source.reports(healthy(0, "a"), healthy(1, "b"));
    monitor.sampleOnce();
    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
  }

  @Test
  void aLostGpuIsLostWhateverErrorItHasAndStaysOutWhenItIsBack() throws Exception {
    monitor.sampleOnce();
    xid("b", 79);
    source.reports(healthy(0, "a"), lost(1, "b"));
    monitor.sampleOnce();
    GpuHealth gone =
        new GpuHealth(
            GpuHealth.State.LOST, "lost", Optional.of(RecoveryAction.NODE_REBOOT), "reboot");
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, gone);
    xid("b", 79);
    assertThat(health()).containsExactly(GpuHealth.HEALTHY, gone);

    source.reports(healthy(0, "a"), healthy(1, "b"));
    monitor.sampleOnce();
    assertThat(health().get(1).state()).isEqualTo(GpuHealth.State.SICK);
    assertThat(health().get(1).advice()).isEqualTo("reboot");
  }

  @Test
  void aGpuThatIsLostAfterAnErrorNeedsWhatTheCatalogueSaysWhereTheDriverCannotBeAsked()
      throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE), needing(1, "b", RecoveryAction.NONE));
    monitor.sampleOnce();
    xid("b", 79);
    xid("b", 48);
    source.reports(needing(0, "a", RecoveryAction.NONE), lost(1, "b"));
    monitor.sampleOnce();

    GpuHealth gone =
        new GpuHealth(
            GpuHealth.State.LOST, "lost", Optional.of(RecoveryAction.NODE_REBOOT), "reboot");
    assertThat(health()).containsExactly(WELL, gone);
    assertThat(kept.outages.get("b").reason()).startsWith("XID 79");

    monitor = monitor();
    monitor.sampleOnce();
    assertThat(health()).containsExactly(WELL, gone);
    source.reports(needing(0, "a", RecoveryAction.NONE), needing(1, "b", RecoveryAction.NONE));
    monitor.sampleOnce();
    assertThat(health()).containsOnly(WELL);
    assertThat(kept.outages).isEmpty();
  }

  @Test
  void aGpuThatIsLostRightAfterTheDriverAskedForNothingNeedsWhatTheCatalogueSays()
      throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE));
    monitor.sampleOnce();
    xid("a", 79);
    monitor.sampleOnce();
    assertThat(health()).containsExactly(WELL);
    source.reports(lost(0, "a"));
    monitor.sampleOnce();
    assertThat(health().get(0).advice()).isEqualTo("reboot");

    source.reports(needing(0, "a", RecoveryAction.NONE));
    monitor.sampleOnce();
    monitor.sampleOnce();
    source.reports(lost(0, "a"));
    monitor.sampleOnce();
    assertThat(health().get(0).action()).as("another loss").isEmpty();
  }

  @Test
  void aGpuThatIsLostOverARestartIsKnownByItsIndexAndStillNeedsTheSame() throws Exception {
    monitor.sampleOnce();
    xid("b", 79);
    monitor.sampleOnce();
    monitor = monitor();
    source.reports(healthy(0, "a"), lost(1, ""), lost(2, ""));
    monitor.sampleOnce();

    assertThat(monitor.newest().gpus()).extracting(Gpu::uuid).containsExactly("a", "b", "");
    assertThat(health().get(1).advice()).isEqualTo("reboot");
    assertThat(health().get(2).action()).isEmpty();

    // Whoever answers elsewhere is not the one that is lost.
    monitor = monitor();
    source.reports(healthy(0, "b"), lost(1, ""));
    monitor.sampleOnce();
    assertThat(monitor.newest().gpus()).extracting(Gpu::uuid).containsExactly("b", "");
    assertThat(health().get(0).advice()).isEqualTo("reboot");
    assertThat(health().get(1).action()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(ints = {32, 69, 92, 137})
  void anErrorThatNeedsNothingTakesNoGpuOutWhileTheDriverIsAsked(int code) throws Exception {
    source.reports(needing(0, "a", RecoveryAction.NONE), needing(1, "b", RecoveryAction.GPU_RESET));
    monitor.sampleOnce();
    monitor.heal("b", true);
    var states = new ArrayList<GpuHealth.State>();
    monitor.listen(new HealthListener(states));
    xid("a", code);
    xid("b", code);
    assertThat(monitor.sampleWanted()).isTrue();
    monitor.sampleOnce();

    assertThat(states).isEmpty();
    assertThat(health()).allMatch(GpuHealth::healthy);

    xid("a", code);
    source.reports(needing(0, "a", RecoveryAction.GPU_RESET));
    monitor.sampleOnce();
    assertThat(health().get(0).reason()).startsWith("XID " + code);
  }

  @Test
  void theLogSaysOfAForcedGpuWhatItStillNeeds() {
    GpuHealth forced = GpuHealth.HEALTHY.needing(RecoveryAction.NODE_REBOOT, "reboot");

    assertThat(forced)
        .hasToString("healthy as declared by the administrator; still needed: reboot");
    assertThat(WELL).hasToString("healthy");
  }

  @Test
  void aNumberThatNoDriverHasYetIsInspected() {
    assertThat(RecoveryAction.ofNvml(0)).isEqualTo(RecoveryAction.NONE);
    assertThat(RecoveryAction.ofNvml(1L << 32)).isEqualTo(RecoveryAction.INSPECT);
    assertThat(RecoveryAction.ofNvml((1L << 32) + 1)).isEqualTo(RecoveryAction.INSPECT);
    assertThat(RecoveryAction.ofNvml(-1)).isEqualTo(RecoveryAction.INSPECT);
  }

  @Test
  void noNameIsNoGpu() {
    source.reports(lost(0, ""));
    monitor.sampleOnce();

    assertThatThrownBy(() -> monitor.heal("", true))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID))
        .hasMessage("missing GPU: give its index or UUID");
  }

  @Test
  void aLostGpuWithoutAnErrorComesBackByItself() {
    source.reports(healthy(0, "a"), lost(1, "b"));
    monitor.sampleOnce();
    source.reports(healthy(0, "a"), healthy(1, "b"));
    monitor.sampleOnce();

    assertThat(health()).containsOnly(GpuHealth.HEALTHY);
  }

  @Test
  void whatAGpuNeedsIsKnownWhileItsDriverIsSilent() throws Exception {
    monitor.sampleOnce();
    xid("b", 48);
    pass(Duration.ofSeconds(5));
    monitor.checkForStall();

    assertThat(health().get(1).state()).isEqualTo(GpuHealth.State.UNKNOWN);
    assertThat(health().get(1).action()).contains(RecoveryAction.GPU_RESET);
    assertThatThrownBy(() -> monitor.heal("1", true))
        .hasMessageStartingWith("GPU 1 does not answer");
  }

  @Test
  void outagesOutliveTheMonitorAndHealedOnesDoNot() throws Exception {
    monitor.sampleOnce();
    xid("a", 48);
    xid("b", 79);
    List<GpuHealth> before = health();
    monitor.heal("b", false);

    monitor = monitor();
    monitor.sampleOnce();
    assertThat(health()).containsExactly(before.get(0), GpuHealth.HEALTHY);
    assertThat(kept.outages).containsOnlyKeys("a");

    source.reports(needing(0, "a", RecoveryAction.NONE), healthy(1, "b"));
    monitor.sampleOnce();
    assertThat(health()).containsExactly(WELL, GpuHealth.HEALTHY);
    assertThat(kept.outages).isEmpty();
  }

  @ParameterizedTest
  @EnumSource(names = "NONE", mode = EnumSource.Mode.EXCLUDE)
  void forceHoldsAgainstTheDriversWordUntilThatOrTheGpuChanges(RecoveryAction word)
      throws Exception {
    source.reports(needing(0, "a", word));
    monitor.sampleOnce();
    assertThatThrownBy(() -> monitor.heal("0", false))
        .hasMessageStartingWith("the driver asks for " + word.need() + " of GPU 0");

    monitor.heal("0", true);
    monitor.sampleOnce();
    monitor = monitor();
    monitor.sampleOnce();
    assertThat(health().get(0).healthy()).isTrue();
    assertThat(health().get(0).action()).contains(word);

    xid("a", 48);
    assertThat(health().get(0).healthy()).isFalse();
    monitor.sampleOnce();
    assertThat(health().get(0).healthy()).isFalse();

    monitor.heal("0", true);
    RecoveryAction other =
        word == RecoveryAction.GPU_RESET ? RecoveryAction.NODE_REBOOT : RecoveryAction.GPU_RESET;
    source.reports(needing(0, "a", other));
    monitor.sampleOnce();
    assertThat(health().get(0).healthy()).isFalse();
  }

  @Test
  void onlyAGpuThatAnswersCanBeHealed() {
    source.reports(lost(0, "a"), gpu(1, "b", GpuHealth.State.SICK, "no memory"), healthy(2, "c"));
    monitor.sampleOnce();

    assertThatThrownBy(() -> monitor.heal("0", true))
        .hasMessage("GPU 0 does not answer, so it cannot be used: lost: lost");
    assertThatThrownBy(() -> monitor.heal("b", true))
        .hasMessage("GPU 1 does not answer, so it cannot be used: sick: no memory");
    assertThatThrownBy(() -> monitor.heal("x", true))
        .hasMessage("no GPU 'x' here: this server has 3");
    assertThat(monitor.heal("2", false).health()).isEqualTo(GpuHealth.HEALTHY);
  }

  private GpuMonitor monitor() {
    return new GpuMonitor(
        source,
        new GpuMonitor.Timing(Duration.ofSeconds(1), Duration.ofSeconds(5)),
        nanos::get,
        Clock.fixed(Instant.EPOCH, ZoneOffset.UTC),
        kept);
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

  private static GpuHealth sick(String reason, RecoveryAction action, String advice) {
    return new GpuHealth(GpuHealth.State.SICK, reason, Optional.of(action), advice);
  }

  /** Keeps outages as the disk would. */
  private static final class Kept implements OutageStore {
    private Map<String, Outage> outages = new HashMap<>();

    @Override
    public Map<String, Outage> load() {
      return outages;
    }

    @Override
    public void save(Map<String, Outage> all) {
      outages = all;
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  private record HealthListener(List<GpuHealth.State> states) implements GpuListener {
    @Override
    public void sampled(GpuSample sample) {}

    @Override
    public void healthChanged(GpuHealthChange change) {
      states.add(change.after().state());
    }

    @Override
    public void stopped() {}
  }
}
