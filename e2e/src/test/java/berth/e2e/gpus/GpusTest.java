package berth.e2e.gpus;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.v1.ListGpusResponse;
import berth.v1.WatchGpusResponse;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The GPUs of a real {@code berthd}, seen through a real {@code berth} and through a client that is
 * not ours.
 */
class GpusTest {
  private static final String TWO_GPUS =
      """
      driver 550.54.15
      cuda 12040
      gpu GPU-aaaa
        name Simulated A100
        bus 00000000:07:00.0
        memory 81920 61440
        utilization 97 40
        temperature 71
        power 312000 400000
        process 4242 60000
      gpu GPU-bbbb
        name Simulated T4
        memory 15360 0
      """;

  @TempDir private Path folder;
  private Path description;
  private Daemon berthd;

  @BeforeEach
  void start() throws Exception {
    description = Files.writeString(folder.resolve("gpus.txt"), TWO_GPUS);
    berthd =
        Daemon.start(
            folder,
            "berthd",
            "--name",
            "gpu01",
            "--simulate-gpus",
            description.toString(),
            "--sample-interval",
            "100ms");
  }

  @AfterEach
  void kill() {
    berthd.close();
  }

  @Test
  void showsOneLineForEachGpuAndSaysThatTheyAreSimulated() {
    Result result = Installed.berth("gpus", "--server", berthd.address());

    assertThat(result.err()).isEmpty();
    assertThat(result.exitCode()).isZero();
    assertThat(result.out().lines())
        .containsExactly(
            "gpu01 at " + berthd.address() + ": simulated GPUs, driver 550.54.15, CUDA 12.4",
            "[0] Simulated A100 |  71°C  97 %  312 / 400 W | ████████░░  61440 /  81920 MiB |"
                + " 4242(60000M)",
            "[1] Simulated T4   |     -     -     -        | ░░░░░░░░░░      0 /  15360 MiB |");
  }

  @Test
  void printsTheResponseAsProtobufJson() throws Exception {
    Result result = Installed.berth("gpus", "--json", "--server", berthd.address());

    ListGpusResponse.Builder response = ListGpusResponse.newBuilder();
    JsonFormat.parser().merge(result.out(), response);
    assertThat(response.getReport().getSimulated()).isTrue();
    assertThat(response.getReport().getGpus(0).getMemory().getUsedBytes()).isEqualTo(61440L << 20);
    assertThat(response.getReport().getGpus(1).hasTemperatureCelsius()).isFalse();
    assertThat(result.out().lines()).hasSize(1);
  }

  @Test
  void showsALostGpuWithItsReasonAndTheOtherAsUsual() throws Exception {
    describe(TWO_GPUS.replace("gpu GPU-bbbb", "gpu GPU-bbbb\n  status 15"));

    await()
        .untilAsserted(
            () ->
                assertThat(Installed.berth("gpus", "--server", berthd.address()).out())
                    .contains("[0] Simulated A100 |  71°C")
                    .containsPattern("\\[1\\] Simulated T4 .*lost: .*GPU is lost"));
  }

  @Test
  void showsTheServersThatAnswerWhenAnotherDoesNot() {
    Result result = Installed.berth("gpus", "--server", "127.0.0.1:1," + berthd.address());

    assertThat(result.out()).contains("gpu01 at");
    assertThat(result.err()).isEqualTo("berth: no berthd at 127.0.0.1:1: Connection refused\n");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  @Test
  void watchStreamsEverySampleAsJsonUntilTheServerStops() throws Exception {
    Process watch =
        new ProcessBuilder(
                Installed.command("berth"),
                "gpus",
                "--watch",
                "--json",
                "--server",
                berthd.address())
            .start();
    try (BufferedReader lines =
        new BufferedReader(new InputStreamReader(watch.getInputStream(), StandardCharsets.UTF_8))) {
      assertThat(parse(lines.readLine()).hasReport()).isTrue();
      describe(TWO_GPUS.replace("gpu GPU-bbbb", "gpu GPU-bbbb\n  status 15"));
      WatchGpusResponse response;
      do {
        response = parse(lines.readLine());
      } while (!response.hasHealthChange());
      assertThat(response.getHealthChange().getUuid()).isEqualTo("GPU-bbbb");

      assertThat(berthd.stop()).isZero();
      while (lines.readLine() != null) {
        // What was sent before the stop.
      }
      assertThat(watch.waitFor()).isEqualTo(125);
      assertThat(new String(watch.getErrorStream().readAllBytes(), StandardCharsets.UTF_8))
          .isEqualTo("berth: this server is stopping\n");
    } finally {
      watch.destroyForcibly();
    }
  }

  @Test
  void watchRedrawsATerminalInPlaceAndGivesItBack() {
    String watch = Installed.command("berth") + " gpus --watch --server " + berthd.address();
    Result result = Installed.run("script", "-qefc", "timeout -s INT 4 " + watch, "/dev/null");

    assertThat(result.out())
        .startsWith("\033[?1049h")
        .contains("\033[H")
        .contains("gpu01")
        .endsWith("\033[?1049l");
  }

  @Test
  void aPythonClientListsTheGpusByReflectionAlone() throws Exception {
    Path script =
        Path.of(System.getProperty("berth.root"))
            .resolve("e2e/src/test/python/list_gpus_by_reflection.py");
    Result result = Installed.run("/usr/bin/python3", script.toString(), berthd.address());

    assertThat(result.err()).isEmpty();
    ListGpusResponse.Builder response = ListGpusResponse.newBuilder();
    JsonFormat.parser().merge(result.out(), response);
    assertThat(response.getReport().getServer()).isEqualTo("gpu01");
    assertThat(response.getReport().getGpusList())
        .extracting(berth.v1.Gpu::getUuid)
        .containsExactly("GPU-aaaa", "GPU-bbbb");
  }

  private void describe(String text) throws Exception {
    Path next = Files.writeString(folder.resolve("next.txt"), text);
    Files.move(next, description, StandardCopyOption.ATOMIC_MOVE);
  }

  private static WatchGpusResponse parse(String line) throws Exception {
    WatchGpusResponse.Builder response = WatchGpusResponse.newBuilder();
    JsonFormat.parser().merge(line, response);
    return response.build();
  }
}
