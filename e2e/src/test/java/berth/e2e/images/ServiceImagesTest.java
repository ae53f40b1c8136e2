package berth.e2e.images;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.Leftovers;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** The daemons in containers, started as the files beside their Dockerfiles say. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class ServiceImagesTest {
  private static final Path ROOT = Path.of(System.getProperty("berth.root"));
  private static final Duration PATIENCE_FOR_IMAGES = Duration.ofMinutes(30);
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final String ADDRESS = "127.0.0.1:18812";

  @TempDir private static Path folder;
  private static Engine engine;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(Engine shared) throws IOException {
    engine = shared;
    Result built =
        Installed.run(
            Map.of("DOCKER_HOST", engine.host()),
            PATIENCE_FOR_IMAGES,
            ROOT + "/scripts/build-images.sh",
            "berthd",
            "registry");
    assertThat(built.exitCode()).as(built.err()).isZero();
    Path locks = Files.createDirectory(folder.resolve("locks"));
    String socket = engine.host().replaceFirst("^unix://", "");
    docker(
        "run --detach --name berthd --network host --pid host --cgroupns host --cap-add SYS_PTRACE"
            + " --security-opt apparmor=unconfined -v /sys/fs/cgroup:/sys/fs/cgroup"
            + (" -v /bin/busybox:/bin/busybox:ro -v " + folder + ":" + folder)
            + (" -v " + socket + ":/var/run/docker.sock " + imageOf("berthd"))
            + (" --simulate-gpus 2 --lock-dir " + locks)
            + (" --state-dir " + folder.resolve("state")));
  }

  @AfterAll
  static void stop() throws IOException {
    engine.docker("rm", "--force", "berthd");
    assertThat(Leftovers.processesIn(folder)).isEmpty();
    // Where start.sh has put it.
    try (Stream<Path> groups =
        Files.find(Path.of("/sys/fs/cgroup"), 2, (path, is) -> isOurs(path))) {
      for (Path group : groups.toList()) {
        Files.delete(group);
      }
    } catch (FileSystemException e) {
      // Another berthd of this machine is in there.
    }
  }

  private static boolean isOurs(Path path) {
    return path.getFileName().toString().equals("berthd") && Files.isDirectory(path);
  }

  @Test
  void berthdInAContainerRunsOthersAndTheyOutliveIt() throws IOException {
    Path script =
        Files.writeString(
            folder.resolve("wait.sh"), "echo on $NV_GPU; " + Asked.AWAIT_GO + "; echo went on");
    await().atMost(PATIENCE).until(() -> berth("runs").exitCode() == 0);
    Result detached =
        berth(
            "run",
            "--detach",
            "--gpus",
            "1",
            "--image",
            Engine.IMAGE,
            "--interpreter",
            "sh",
            script.toString());
    assertThat(detached.exitCode()).as(detached.err()).isZero();
    String run = detached.out().strip();
    await().atMost(PATIENCE).until(() -> berth("logs", run).out().equals("on 0\n"));

    engine.docker("restart", "berthd");
    Files.createFile(folder.resolve("state/runs").resolve(run).resolve("work/go"));

    await().atMost(PATIENCE).until(() -> berth("runs").exitCode() == 0);
    Result rest = berth("logs", "-f", run);
    assertThat(rest.out()).isEqualTo("on 0\nwent on\n");
    assertThat(berth("runs").out()).contains("exit 0");
    assertThat(engine.docker("logs", "berthd")).doesNotContain("will not survive");
  }

  @Test
  void theRegistryNeedsNothingOfTheMachine() {
    assertThat(
            docker(
                "run --rm --network host --read-only --cap-drop ALL "
                    + imageOf("registry")
                    + " --version"))
        .startsWith("berth-registry ");
  }

  private static String docker(String words) {
    return engine.docker(words.split(" "));
  }

  private static String imageOf(String name) {
    return engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}", "berth.invalid/" + name);
  }

  private static Result berth(String... words) {
    List<String> command = new ArrayList<>(List.of(Installed.command("berth"), words[0]));
    command.addAll(List.of("--server", ADDRESS));
    command.addAll(Arrays.asList(words).subList(1, words.length));
    return Installed.run(engine.inItsNetwork(command).toArray(String[]::new));
  }
}
