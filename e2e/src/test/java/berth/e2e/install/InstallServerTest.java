package berth.e2e.install;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What install-server.sh puts where, below a folder that plays the root of a machine. */
class InstallServerTest {
  @TempDir private Path folder;
  private Path root;

  @BeforeEach
  void links() throws IOException {
    // The folder of a test may be behind links, which the commands resolve.
    root = folder.toRealPath().resolve("root");
  }

  private Result script(String... args) {
    return scriptWith("java", args);
  }

  /** With the Java of this test under another name, and so as another release. */
  private Result scriptWith(String java, String... args) {
    Path home = root.resolveSibling(java);
    try {
      if (!Files.exists(home)) {
        Files.createSymbolicLink(home, Path.of(System.getProperty("java.home")));
      }
    } catch (IOException e) {
      throw new AssertionError(e);
    }
    List<String> words = new ArrayList<>(List.of("env", "JAVA_HOME=" + home));
    words.add(Installed.home().resolve("scripts/install-server.sh").toString());
    words.addAll(List.of(args));
    words.addAll(List.of("--root", root.toString()));
    return Installed.run(words.toArray(String[]::new));
  }

  private void install(String... args) {
    assertDone(script(args));
  }

  private static void assertDone(Result result) {
    assertThat(result.exitCode()).as(result.err()).isZero();
  }

  private Path at(String path) {
    return root.resolve(path.substring(1));
  }

  private List<Path> releases() throws IOException {
    try (Stream<Path> releases = Files.list(at("/opt/berth/releases"))) {
      return releases.toList();
    }
  }

  private Daemon berthd() throws IOException {
    Path work = Files.createDirectories(root.resolveSibling("work"));
    return Daemon.start(
        at("/opt/berth/current/bin"),
        work,
        Map.of(),
        "berthd",
        "--config",
        at("/etc/berth/berthd.yaml").toString(),
        // The file has the place that it will have on the machine.
        "--services",
        at("/etc/berth/services.yaml").toString());
  }

  @Test
  void theInstalledDaemonReadsTheConfigurationThatTheOptionsMade() throws Exception {
    install("server", "--name", "gpu07", "--simulate-gpus", "3", "--runtime", "process");

    try (Daemon berthd = berthd()) {
      Result gpus =
          Installed.run(
              at("/opt/berth/current/bin/berth").toString(), "gpus", "--server", berthd.address());
      assertThat(gpus.out()).startsWith("gpu07 at " + berthd.address()).contains("[2] ");
      assertThat(berthd.stop()).isZero();
    }
    assertThat(Files.readString(at("/etc/berth/berthd.yaml")))
        .contains(
            "\nname: gpu07\n", "\nservices: /etc/berth/services.yaml\n", "\n#insecure: false");
  }

  @ParameterizedTest
  @CsvSource({"server,berthd", "registry,berth-registry"})
  void aMachineGetsAllCommandsAndTheOneServiceThatWasAskedForWhichSystemdAccepts(
      String role, String daemon) throws Exception {
    install(role);

    try (Stream<Path> units = Files.list(at("/usr/local/lib/systemd/system"))) {
      assertThat(units).containsExactly(at("/usr/local/lib/systemd/system/" + daemon + ".service"));
    }
    assertThat(complaints(daemon)).isEmpty();
    assertThat(at("/etc/berth/" + daemon + ".yaml")).exists();
    for (String command : List.of("berth", "berthd", "berth-registry")) {
      Path target = Files.readSymbolicLink(at("/usr/local/bin/" + command));
      assertThat(target).hasToString("/opt/berth/current/bin/" + command);
      assertThat(Installed.run(at(target.toString()).toString(), "--version").out())
          .startsWith(command + " ");
    }
  }

  @ParameterizedTest
  @CsvSource({"server,berthd", "registry,berth-registry"})
  void aServiceIsStartedForEverAndShutsOthersOutOfItsFiles(String role, String daemon)
      throws Exception {
    install(role);

    List<String> unit =
        Files.readAllLines(at("/usr/local/lib/systemd/system/" + daemon + ".service"));
    assertThat(unit)
        .contains("UMask=0077", "Restart=always", "StartLimitIntervalSec=0", "RestartSec=5s")
        .noneMatch(line -> line.startsWith("StartLimitBurst"));
    if (unit.stream().anyMatch(line -> line.startsWith("StateDirectory="))) {
      assertThat(unit).contains("StateDirectoryMode=0700");
    }
    // Of its JVM too nothing stays half alive.
    assertThat(Files.readString(at("/opt/berth/current/bin/" + daemon)))
        .contains("-XX:+ExitOnOutOfMemoryError");
  }

  /** What systemd says about a unit. Its exit code is the same whatever it says. */
  private String complaints(String daemon) throws IOException {
    String unit = Files.readString(at("/usr/local/lib/systemd/system/" + daemon + ".service"));
    assertThat(unit).doesNotContain("@PREFIX@");
    // It looks whether the command is there.
    Path moved = root.resolve(daemon + ".service");
    Files.writeString(moved, unit.replace("ExecStart=", "ExecStart=" + root));
    Result result = Installed.run("systemd-analyze", "verify", "--man=no", moved.toString());
    return result.out() + result.err();
  }

  @Test
  void anUpgradeKeepsTheConfigurationAndTheFilesOfWhatStillRuns() throws Exception {
    install("server", "--simulate-gpus", "1", "--runtime", "process");
    Path config = at("/etc/berth/berthd.yaml");
    Files.writeString(config, "simulate-gpus: 2\nruntime: process\n");
    Path services = at("/etc/berth/services.yaml");
    Files.writeString(services, "services:\n  caffe:\n    image: berth/caffe:1.0\n");
    Path first = releases().get(0);

    try (Daemon berthd = berthd()) {
      Result upgrade = scriptWith("newer-java", "server");

      assertDone(upgrade);
      assertThat(upgrade.err()).contains(services + " names images berth/..., which are never");
      assertThat(releases()).hasSize(2).contains(first);
      assertThat(at("/opt/berth/current").toRealPath()).isNotEqualTo(first);
      assertThat(Installed.berth("gpus", "--server", berthd.address()).out()).contains("[1] ");
      berthd.stop();
    }
    assertDone(scriptWith("newer-java", "server"));

    assertThat(releases()).hasSize(1).doesNotContain(first);
    assertThat(config).hasContent("simulate-gpus: 2\nruntime: process\n");
  }

  @Test
  void refusesOptionsThatItCannotWriteDown() throws Exception {
    Result unknown = script("server", "--no-such-option", "3");
    assertThat(unknown.err())
        .startsWith("install-server.sh: berthd has no option --no-such-option; see ");
    assertThat(unknown.exitCode()).isEqualTo(1);
    assertThat(root).isEmptyDirectory();

    install("server", "--name", "gpu07");
    install("server", "--name", "gpu07");
    Result other = script("server", "--name", "gpu08");
    assertThat(other.err())
        .isEqualTo(
            "install-server.sh: %s exists without 'name: gpu08': change it there, or leave --name out\n"
                .formatted(at("/etc/berth/berthd.yaml")));
  }

  @ParameterizedTest
  @CsvSource({
    "server,listen,0.0.0.0",
    "registry,listen,0.0.0.0:18811",
    "server,listen,[::]:18812",
    "server,listen,::",
    "registry,http,192.0.2.7:80"
  })
  void refusesToListenBeyondLoopbackUnlessItIsSaidToBeInsecure(
      String role, String option, String address) {
    Result refused = script(role, "--" + option, address);

    assertThat(refused.exitCode()).isEqualTo(1);
    assertThat(refused.err())
        .isEqualTo(
            "install-server.sh: --%1$s %2$s is beyond loopback, where calls are neither encrypted nor authenticated: add --insecure if you trust everyone who reaches this machine, or leave --%1$s out. Nothing was installed\n"
                .formatted(option, address));
    assertThat(root).isEmptyDirectory();
  }

  @Test
  void listensBeyondLoopbackWhenItIsSaidToBeInsecureAndOnLoopbackWithout() throws Exception {
    install("server", "--listen", "0.0.0.0", "--insecure");
    install("registry", "--listen", "[::1]:18811");

    assertThat(Files.readString(at("/etc/berth/berthd.yaml")))
        .contains("\nlisten: 0.0.0.0\n", "\ninsecure: true\n")
        .doesNotContain("values below");
    assertThat(Files.readString(at("/etc/berth/berth-registry.yaml")))
        .contains("\nlisten: '[::1]:18811'\n");
  }

  @Test
  void theInstallationHasMonitoringAndBuildsImagesWithoutSourcesOrGradle() throws Exception {
    install("server");

    Path current = at("/opt/berth/current");
    for (String file : List.of("monitoring/alerts.yaml", "monitoring/dashboard.json")) {
      assertThat(current.resolve(file)).isRegularFile();
    }
    for (String image : List.of("tensorflow", "pytorch", "caffe", "berthd", "registry")) {
      assertThat(current.resolve("dockerfiles/" + image + "/Dockerfile")).isRegularFile();
    }
    assertThat(current.resolve("dockerfiles/berthd/start.sh")).isExecutable();
    String script = current.resolve("scripts/build-images.sh").toString();
    Result help = Installed.run(script, "--help");
    assertThat(help.out()).startsWith("Usage: scripts/build-images.sh ");
    assertThat(help.exitCode()).isZero();
    Result caffe = Installed.run(script, "caffe");
    assertThat(caffe.err())
        .startsWith("build-images.sh: the CPU variant of caffe cannot be built in an installation");
    assertThat(caffe.exitCode()).isEqualTo(1);
  }

  @Test
  void saysThatThereIsNothingToUninstall() throws Exception {
    for (String[] words : new String[][] {{"uninstall"}, {"uninstall", "--purge"}}) {
      Result nothing = script(words);
      assertThat(nothing.err())
          .isEqualTo(
              "install-server.sh: nothing to uninstall: Berth is not installed in %s\n"
                  .formatted(at("/opt/berth")));
      assertThat(nothing.exitCode()).isEqualTo(1);
    }
  }

  @Test
  void uninstallLeavesConfigurationAndStateUnlessItPurges() throws Exception {
    install("server");
    install("registry");
    Files.createDirectories(at("/var/lib/berth/gpu01"));

    assertDone(script("uninstall"));
    assertThat(files())
        .containsExactlyInAnyOrder("berthd.yaml", "berth-registry.yaml", "services.yaml");
    assertThat(at("/var/lib/berth/gpu01")).exists();
    assertThat(script("uninstall").err()).contains("nothing to uninstall");

    assertDone(script("uninstall", "--purge"));
    assertThat(files()).isEmpty();
    assertThat(at("/var/lib/berth")).doesNotExist();
  }

  /** The names of all files and links below the root. */
  private List<String> files() throws IOException {
    try (Stream<Path> all = Files.walk(root)) {
      return all.filter(path -> !Files.isDirectory(path) || Files.isSymbolicLink(path))
          .map(path -> path.getFileName().toString())
          .toList();
    }
  }
}
