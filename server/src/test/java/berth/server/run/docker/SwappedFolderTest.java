package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.rpc.BerthException;
import berth.server.reservation.Reservation.Owner;
import berth.server.run.Launch;
import berth.server.run.RequestedRun;
import berth.server.run.RunFolder;
import berth.server.run.Runs;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A folder that becomes a link between the steps of a start, with a real engine. */
@Tag("docker")
class SwappedFolderTest {
  private static final String SCRIPT =
      Path.of(System.getProperty("berth.root"), "scripts/engine.sh").toString();
  private static final String RUN = "run-1";

  @TempDir private static Path engineFolder;
  @TempDir private Path temporary;
  private Path root;
  private Path asked;
  private DockerRuntime runtime;

  @BeforeAll
  static void startEngine() throws Exception {
    engine("start");
  }

  @AfterAll
  static void stopEngine() throws Exception {
    engine("stop");
  }

  @BeforeEach
  void make() throws IOException {
    root = temporary.toRealPath();
    asked = Files.createDirectories(root.resolve("scratch/mine"));
    Files.writeString(asked.resolve("file"), "mine");
    Files.writeString(Files.createDirectories(root.resolve("secret")).resolve("file"), "secret");
    runtime =
        new DockerRuntime(
            new DockerRuntime.Settings(
                "unix://" + engineFolder.toRealPath() + "/docker.sock",
                "gpu01",
                root.resolve("state"),
                true,
                Duration.ofHours(1)));
    // It asks the engine in a thread of its own.
    await().atMost(Duration.ofMinutes(1)).until(() -> runtime.info().usable());
  }

  @AfterEach
  void remove() throws IOException {
    runtime.remove(RUN);
    runtime.close();
    assertThat(Files.readString(Path.of("/proc/self/mountinfo"))).doesNotContain(root.toString());
  }

  @Test
  void beforeTheContainerIsMadeItIsRefused() throws Exception {
    Launch launch = launch();
    swap();
    assertThatThrownBy(() -> runtime.create(launch, new Launches.NoProgress()))
        .isInstanceOf(BerthException.class)
        .hasMessage(
            "mount of %s asked, but since it was checked %s has become a link or a file",
            asked, asked);
  }

  @Test
  void afterTheContainerIsMadeItHasNoEffect() throws Exception {
    Launch launch = launch();
    runtime.create(launch, new Launches.NoProgress());
    swap();
    assertThat(seen(launch)).isEqualTo("mine");
  }

  @Test
  void aRestartedServerThatStartsWhatTheOldOneMadeRefusesItToo() throws Exception {
    Launch launch = launch();
    runtime.create(launch, new Launches.NoProgress());
    swap();
    assertThatThrownBy(() -> runtime.create(launch, new Launches.NoProgress()))
        .hasMessageContaining("has become a link or a file");
  }

  @Test
  void whatIsMadeTwiceIsStartedOnceWithTheFolder() throws Exception {
    Launch launch = launch();
    runtime.create(launch, new Launches.NoProgress());
    runtime.create(launch, new Launches.NoProgress());
    assertThat(seen(launch)).isEqualTo("mine");
  }

  private void swap() throws IOException {
    Files.move(asked, asked.resolveSibling("aside"));
    Files.createSymbolicLink(asked, root.resolve("secret"));
  }

  /** Starts the program, and returns what it has seen in the folder. */
  private String seen(Launch launch) throws Exception {
    // Whoever opens a pipe for both does not wait for the other end.
    try (RandomAccessFile out = new RandomAccessFile(pipe(launch, "stdout"), "rw");
        RandomAccessFile err = new RandomAccessFile(pipe(launch, "stderr"), "rw")) {
      runtime.start(launch);
      assertThat(runtime.await(RUN).code()).isZero();
      assertThat(out.getFD().valid() && err.getFD().valid()).isTrue();
    }
    return Files.readString(launch.folder().work().resolve("seen"));
  }

  private static String pipe(Launch launch, String name) {
    return launch.folder().io().resolve(name).toString();
  }

  private Launch launch() throws Exception {
    RunFolder folder = Runs.folder(root.resolve("state"), RUN);
    for (Path each : List.of(folder.io().resolve("mark"), folder.mark(), folder.work())) {
      Files.createDirectories(each);
    }
    for (String name : List.of("stdout", "stderr")) {
      command("mkfifo", folder.io().resolve(name).toString());
    }
    return new Launch(
        RUN,
        folder,
        Optional.of("berth-test/busybox:1"),
        Optional.of("a test fetches nothing"),
        Optional.empty(),
        List.of("sh", "-c", "cat /m/file >/work/seen"),
        Map.of(),
        "/work",
        Optional.empty(),
        RequestedRun.Network.NONE,
        List.of(new Launch.Bind(asked, "/m", false)),
        Launches.UNLIMITED,
        Map.of(),
        List.of(),
        new Owner("ann", "laptop"),
        "");
  }

  private static void engine(String verb) throws Exception {
    command(SCRIPT, verb, engineFolder.toRealPath().toString());
  }

  private static void command(String... words) throws Exception {
    Process process =
        new ProcessBuilder(words)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    assertThat(process.waitFor()).as(String.join(" ", words)).isZero();
  }
}
