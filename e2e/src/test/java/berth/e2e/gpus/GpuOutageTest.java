package berth.e2e.gpus;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.client.call.GpuClient;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.v1.GpuHealthState;
import berth.v1.GpuRecoveryAction;
import berth.v1.ListGpusResponse;
import com.google.protobuf.util.JsonFormat;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** GPUs that need a reset or a reboot, at a real {@code berthd} that is killed meanwhile. */
class GpuOutageTest {
  private static final String FELL_OFF =
      "sick: XID 79, the GPU has fallen off the bus; to bring it back: reboot";

  @TempDir private Path folder;
  private Path description;
  private Daemon berthd;

  @BeforeEach
  void start() throws Exception {
    description = folder.resolve("gpus.txt");
    describe("", "");
    berthd = berthd();
  }

  @AfterEach
  void releaseAndKill() {
    release();
    berthd.close();
  }

  @Test
  void aGpuThatFellOffTheBusStaysOutOverARestartUntilItIsHealedWhileTheOthersServe()
      throws Exception {
    describe("", "xid 1 79");
    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains(FELL_OFF));

    String held = berth("reserve", "--gpus", "1", "--for", "2h").out();
    assertThat(held).contains(": GPU 0 for 2h");
    assertThat(berth("reserve", "--gpus", "1", "--wait", "0s", "--for", "2h").exitCode())
        .isEqualTo(125);
    awaitRecord("GPU-bbbb");
    berthd.kill();
    berthd = berthd();

    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains(FELL_OFF));
    Process waiting =
        new ProcessBuilder(
                Installed.command("berth"), "reserve", "--server", berthd.address(), "--for", "2h")
            .start();
    try {
      await().untilAsserted(() -> assertThat(berth("reservations").out()).contains("waiting"));
      assertThat(berth("release", held.substring(0, held.indexOf(':'))).exitCode()).isZero();
      String next = waiting.inputReader().readLine();
      assertThat(next).contains(": GPU 0 for 2h");

      assertThat(berth("server", "heal", "1").out())
          .isEqualTo(berthd.address() + ": GPU 1 (GPU-bbbb) is in service\n");
      assertThat(berth("reserve", "--gpus", "1", "--wait", "0s", "--for", "2h").out())
          .contains(": GPU 1 for 2h");
      berthd.kill();
      berthd = berthd();
      await()
          .untilAsserted(
              () -> assertThat(berth("gpus").out()).contains("[1]").doesNotContain("sick"));
    } finally {
      waiting.destroyForcibly();
    }
  }

  @Test
  void aGpuOfWhichTheDriverAsksNothingReturnsByItself() throws Exception {
    describe("recovery_action 0", "");
    await().until(() -> health().getRecoveryAction() == GpuRecoveryAction.GPU_RECOVERY_ACTION_NONE);
    List<GpuHealthState> seen = new CopyOnWriteArrayList<>();
    try (GpuClient client = GpuClient.of(Address.parse(berthd.address(), 0))) {
      CountDownLatch watching = new CountDownLatch(1);
      new Thread(() -> watch(client, watching, seen)).start();
      watching.await();
      describe("recovery_action 0\nxid 1 48", "");

      await()
          .until(
              () ->
                  seen.equals(
                      List.of(
                          GpuHealthState.GPU_HEALTH_STATE_SICK,
                          GpuHealthState.GPU_HEALTH_STATE_HEALTHY)));
    }
    assertThat(berth("gpus").out()).contains("[0]").doesNotContain("sick");
  }

  @Test
  void aGpuStaysOutForAsLongAsTheDriverAsksForAReset() throws Exception {
    describe("recovery_action 1", "");
    String shown =
        "sick: the driver requests a recovery action; to bring it back: stop berthd, nvidia-smi"
            + " --gpu-reset -i 0, start berthd";
    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains(shown));
    assertThat(health().getRecoveryAction())
        .isEqualTo(GpuRecoveryAction.GPU_RECOVERY_ACTION_GPU_RESET);
    assertThat(health().getAdvice())
        .isEqualTo("stop berthd, nvidia-smi --gpu-reset -i 0, start berthd");
    awaitRecord("GPU-aaaa");
    berthd.kill();
    berthd = berthd();
    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains(shown));

    Result refused = berth("server", "heal", "0");
    assertThat(refused.exitCode()).isEqualTo(125);
    assertThat(refused.err()).startsWith("berth: the driver asks for a GPU reset of GPU 0");
    assertThat(berth("server", "heal", "GPU-aaaa", "--force").exitCode()).isZero();
    assertThat(berth("gpus").out())
        .doesNotContain("sick")
        .contains("still needed: stop berthd, nvidia-smi --gpu-reset -i 0");

    describe("recovery_action 4", "");
    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains("let its work finish"));
    describe("recovery_action 0", "");
    await()
        .untilAsserted(
            () -> assertThat(berth("gpus").out()).doesNotContain("sick", "still needed"));
  }

  @Test
  void aDamagedRecordKeepsNoDaemonFromStartingAndItsGpuOut() throws Exception {
    describe("xid 1 48", "xid 1 95");
    await().untilAsserted(() -> assertThat(berth("gpus").out()).contains("XID 48", "XID 95"));
    awaitRecord("GPU-bbbb");
    awaitRecord("GPU-aaaa");
    Path outages = outages();
    berthd.kill();
    Files.writeString(outages.resolve("GPU-aaaa"), "garbage");
    berthd = berthd();

    await()
        .untilAsserted(
            () ->
                assertThat(berth("gpus").out())
                    .contains("the record of its outage is damaged", "XID 95"));
    assertThat(berthd.log()).contains(outages.resolve("GPU-aaaa") + " is damaged");
    try (Stream<Path> left = Files.list(outages)) {
      assertThat(left.map(path -> path.getFileName().toString()))
          .anyMatch(name -> name.startsWith("damaged-"));
    }
  }

  private static void watch(GpuClient client, CountDownLatch watching, List<GpuHealthState> seen) {
    try {
      client.watchGpus(
          response -> {
            watching.countDown();
            if (response.hasHealthChange()) {
              seen.add(response.getHealthChange().getAfter().getState());
            }
          });
    } catch (BerthException e) {
      // Closed.
    }
  }

  private Path outages() {
    return folder.resolve("state").resolve("gpu-outages");
  }

  private void awaitRecord(String gpu) {
    await().until(() -> Files.exists(outages().resolve(gpu)));
  }

  private void release() {
    for (String line : berth("reservations").out().split("\n")) {
      for (String word : line.split("\\s+")) {
        if (word.matches("r-[0-9a-f]+")) {
          berth("release", word);
        }
      }
    }
  }

  private berth.v1.GpuHealth health() throws Exception {
    ListGpusResponse.Builder response = ListGpusResponse.newBuilder();
    JsonFormat.parser().merge(berth("gpus", "--json").out(), response);
    return response.getReport().getGpus(0).getHealth();
  }

  private Daemon berthd() {
    return Daemon.start(
        folder,
        "berthd",
        "--name",
        "gpu01",
        "--runtime",
        "process",
        "--allow-root",
        "--simulate-gpus",
        description.toString(),
        "--sample-interval",
        "100ms",
        // A busy machine is no driver that hangs.
        "--nvml-stall",
        "1m");
  }

  private Result berth(String... words) {
    String[] all =
        Stream.concat(Stream.of(words), Stream.of("--server", berthd.address()))
            .toArray(String[]::new);
    return Installed.berth(all);
  }

  private void describe(String linesOfA, String linesOfB) throws Exception {
    String text =
        "gpu GPU-aaaa\nmemory 1024 0\nprocesses\n"
            + linesOfA
            + "\ngpu GPU-bbbb\nmemory 1024 0\nprocesses\n"
            + linesOfB
            + "\n";
    Path next = Files.writeString(folder.resolve("next.txt"), text);
    Files.move(next, description, StandardCopyOption.ATOMIC_MOVE);
  }
}
