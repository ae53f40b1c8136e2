package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.spec.IdleLimit;
import berth.client.spec.Program;
import berth.client.spec.Warning;
import berth.rpc.BerthException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ClusterPackageTest {
  @TempDir private Path temp;
  private Path files;
  private Path script;
  private Path packed;

  @BeforeEach
  void makeFiles() throws IOException {
    files = Files.createDirectories(temp.resolve("files/sub")).getParent();
    Files.writeString(files.resolve("train.py"), "print(1)");
    Files.writeString(files.resolve("sub/data"), "data");
    script = Files.writeString(temp.resolve("watch.sh"), "#!/bin/sh\n");
    packed = Files.createDirectory(temp.resolve("package"));
  }

  private ClusterRequest request() {
    return ClusterRequest.named("study")
        .all(
            run ->
                run.service("tensorflow")
                    .files(files)
                    .script("train.py", "--epochs", "3")
                    .interpreter(List.of("python3", "-u"))
                    .entrypoint(List.of("tini", "--"))
                    .pip(List.of("keras"))
                    .env("A", "1")
                    .mount("/data", "/data", true)
                    .label("room", "b12")
                    .exclude("gpu9"))
        .task(
            "chief",
            1,
            run -> run.gpus(1).memory("2g").idle(new IdleLimit(5, Duration.ofMinutes(30))))
        .task("worker", 3, run -> run.allGpus().gpuModel("A100").servers("gpu1").cpus(1.5))
        .task("ps", 1, run -> run.command("serve", "{port}").image("a:1"))
        .restart(RestartPolicy.EXIT_CODE)
        .signal("ps", TaskSignal.parse("USR2@5"))
        .signal("chief", TaskSignal.parse("none"))
        .workerGrace(Duration.ofSeconds(5))
        .waitAtMost(Duration.ofMinutes(5))
        .timeLimit(Duration.ofHours(8))
        .policy(
            new ClusterPolicy(
                7,
                true,
                Duration.ofSeconds(3),
                SuccessRule.share(80),
                Cleaning.PS,
                Optional.of(Duration.ofDays(1)),
                Optional.of(new Warning("USR1", Duration.ofSeconds(9))),
                2,
                "/nfs"))
        .build();
  }

  @Test
  void isReadAsItWasWrittenWithItsFilesElsewhere() throws IOException {
    ClusterRequest request = request();
    ClusterPackage.write(request, packed);
    Path unpacked = temp.resolve("unpacked");

    ClusterRequest read = ClusterPackage.read(packed, unpacked);

    Path moved = read.groups().get(0).run().program().bundle().orElseThrow();
    assertThat(moved).startsWith(unpacked);
    assertThat(moved.resolve("train.py")).hasContent("print(1)");
    assertThat(moved.resolve("sub/data")).hasContent("data");
    read.groups().forEach(group -> group.run().program().check(""));
    assertThat(movedBack(read, moved)).isEqualTo(request);
    // One who was killed reads it again.
    assertThat(ClusterPackage.read(packed, unpacked)).isEqualTo(read);
  }

  private ClusterRequest movedBack(ClusterRequest read, Path moved) {
    return new ClusterRequest(
        read.name(),
        read.groups().stream().map(group -> movedBack(group, moved)).toList(),
        read.layout(),
        read.waitAtMost(),
        read.timeLimit(),
        read.startTimeout(),
        read.stopGrace(),
        read.evaluatorGrace(),
        read.workerGrace(),
        read.policy());
  }

  private TaskGroup movedBack(TaskGroup group, Path moved) {
    Program program = group.run().program();
    assertThat(program.bundle()).contains(moved);
    return group.with(
        group
            .run()
            .with(
                new Program(
                    program.words(),
                    program.isCommand(),
                    Optional.of(files),
                    program.interpreter())));
  }

  @Test
  void aScriptThatIsSentAloneIsInIt() throws IOException {
    ClusterRequest request =
        ClusterRequest.named("study")
            .all(run -> run.image("a").script(script.toString(), "x"))
            .task("worker", 1, run -> {})
            .task("ps", 1, run -> {})
            .build();
    ClusterPackage.write(request, packed);
    Files.delete(script);

    ClusterRequest read = ClusterPackage.read(packed, temp.resolve("unpacked"));

    assertThat(read.groups())
        .allSatisfy(
            group -> {
              Program program = group.run().program();
              assertThat(Path.of(program.words().get(0)))
                  .startsWith(packed)
                  .hasFileName("watch.sh")
                  .hasContent("#!/bin/sh");
              assertThat(program.words()).last().isEqualTo("x");
            });
  }

  @Test
  void nothingStaysOfAnUnpackingThatFailedOrWasKilled() throws IOException {
    ClusterPackage.write(request(), packed);
    Path unpacked = temp.resolve("unpacked");
    Path killed = Files.createDirectories(unpacked.resolve("unpacking123/sub"));
    Files.createSymbolicLink(killed.resolve("link"), files);
    Path tar = packed.resolve("files-0.tar");
    byte[] whole = Files.readAllBytes(tar);
    byte[] damaged = whole.clone();
    // After the first file.
    Arrays.fill(damaged, 1024, damaged.length, (byte) 'x');
    Files.write(tar, damaged);

    assertThatThrownBy(() -> ClusterPackage.read(packed, unpacked)).isInstanceOf(Exception.class);
    assertThat(unpacked).isEmptyDirectory();
    assertThat(files.resolve("sub/data")).hasContent("data");

    Files.write(tar, whole);
    ClusterPackage.read(packed, unpacked);
    assertThat(unpacked.toFile().list()).containsExactly("files-0.tar");
  }

  @Test
  void anotherFileIsNone() throws IOException {
    Files.writeString(packed.resolve("cluster.json"), "{ tasks: ");

    assertThatThrownBy(() -> ClusterPackage.read(packed, temp.resolve("unpacked")))
        .isInstanceOf(BerthException.class)
        .hasMessageStartingWith("not a cluster package of this version of Berth");
  }

  private ClusterRequest alone() {
    return ClusterRequest.named("study")
        .all(run -> run.image("a").script(script.toString()))
        .task("worker", 1, run -> {})
        .build();
  }

  private void rewrite(String from, String to) throws IOException {
    String text = Files.readString(packed.resolve("cluster.json"));
    assertThat(text).contains(from);
    Files.writeString(packed.resolve("cluster.json"), text.replace(from, to));
  }

  private void assertRefused(String message) {
    assertThatThrownBy(() -> ClusterPackage.read(packed, temp.resolve("unpacked")))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining(message);
    assertThat(temp.resolve("unpacked")).doesNotExist();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/etc/passwd",
        "../outside.sh",
        "script-0/../../outside.sh",
        "script-0/..",
        "script-0/.",
        "script-0/a/b",
        "script-0//watch.sh",
        "./script-0/watch.sh",
        "script-x/watch.sh",
        "script-0/a\\u0007",
        "script-0/a\\u202e",
        "cluster.json",
        "files-0.tar",
        ""
      })
  void aScriptOfAnotherNameIsNotRead(String name) throws IOException {
    Files.writeString(temp.resolve("outside.sh"), "secret");
    ClusterPackage.write(alone(), packed);
    rewrite("\"script-0/watch.sh\"", '"' + name + '"');

    assertRefused("the package names the file '");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/etc",
        "d/files-0.tar",
        "d/../files-0.tar",
        "../files-0.tar",
        "files-0.tar/.",
        "files-0",
        "script-0/watch.sh",
        "cluster.json"
      })
  void aFolderOfAnotherNameIsNotUnpacked(String name) throws IOException {
    ClusterPackage.write(request(), packed);
    Files.createDirectory(packed.resolve("d"));
    rewrite("\"files-0.tar\"", '"' + name + '"');

    assertRefused("the package names the file '");
  }

  @Test
  void aLinkIsNotFollowedWhereverItIs() throws IOException {
    ClusterPackage.write(alone(), packed);
    Path inside = packed.resolve("script-0/watch.sh");
    Files.move(inside, temp.resolve("moved"));
    Files.createSymbolicLink(inside, temp.resolve("moved"));
    assertRefused("'watch.sh' in the package is a link or no regular file");

    Files.delete(inside);
    Files.delete(packed.resolve("script-0"));
    Files.createSymbolicLink(packed.resolve("script-0"), temp);
    assertRefused("'script-0' in the package is a link or no folder");

    Files.move(packed.resolve("cluster.json"), temp.resolve("cluster.json"));
    Files.createSymbolicLink(packed.resolve("cluster.json"), temp.resolve("cluster.json"));
    assertRefused("'cluster.json' in the package is a link or no regular file");
  }

  @Test
  @Timeout(60)
  void aNamedPipeIsNotWaitedFor() throws Exception {
    ClusterPackage.write(request(), packed);
    Files.delete(packed.resolve("files-0.tar"));
    Process made =
        new ProcessBuilder("mkfifo", packed.resolve("files-0.tar").toString()).inheritIO().start();
    assertThat(made.waitFor()).isZero();

    assertRefused("'files-0.tar' in the package is a link or no regular file");
  }

  @Test
  void whatIsTooLargeIsNotRead() throws IOException {
    ClusterPackage.write(alone(), packed);
    try (RandomAccessFile file =
        new RandomAccessFile(packed.resolve("script-0/watch.sh").toFile(), "rw")) {
      file.setLength((8 << 20) + 1);
    }
    assertRefused("has 8388609 bytes, at most 8388608 are allowed");

    Files.writeString(packed.resolve("cluster.json"), " ".repeat((4 << 20) + 1));
    assertRefused("'cluster.json' in the package has 4194305 bytes");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"policy\":",
        "\"name\":",
        "\"groups\":",
        "\"run\":",
        "\"program\":",
        "\"words\":",
        "\"restart\":",
        "\"startTimeout\":",
        "\"success\":",
        "\"waitAtMost\":"
      })
  void whatIsMissingIsSaidAtOnce(String field) throws IOException {
    ClusterPackage.write(alone(), packed);
    rewrite(field, "\"other\":");

    assertRefused("not a cluster package of this version of Berth");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "null", "[]", "{}", "{} {}", "7", "{'name': 1}", "\"x\""})
  void whatIsNoRequestIsRefused(String text) throws IOException {
    Files.writeString(packed.resolve("cluster.json"), text);

    assertRefused("not a cluster package of this version of Berth");
  }

  @Test
  void aNestedRequestCannotExhaustTheStack() throws IOException {
    Files.writeString(packed.resolve("cluster.json"), "{\"groups\":" + "[".repeat(1_000_000));
    assertRefused("not a cluster package of this version of Berth");

    Files.writeString(packed.resolve("cluster.json"), "{\"other\":" + "[".repeat(1_000_000));
    assertRefused("not a cluster package of this version of Berth");
  }

  @Test
  void aRequestIsCheckedAsOneThatWasBuilt() throws IOException {
    ClusterPackage.write(alone(), packed);
    rewrite("\"instances\":1", "\"instances\":-1");

    assertRefused("'worker' asks for -1 instances; at least one is needed");
  }
}
