package berth.e2e.runs;

import static berth.e2e.fixture.Asked.AWAIT_GO;
import static berth.e2e.fixture.Asked.shell;
import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.RunServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ExitReason;
import berth.v1.Mount;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent.EventCase;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Ways out of a container, which lead nowhere. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class MountEscapesTest {
  @TempDir private static Path folder;
  private static Path scratch;
  private static Path secret;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  static void start(Engine shared) throws IOException {
    engine = shared;
    scratch = Files.createDirectory(folder.toRealPath().resolve("scratch"));
    secret = Files.createDirectory(folder.toRealPath().resolve("secret"));
    Files.writeString(secret.resolve("file"), "secret\n");
    server =
        new RunServer(
            folder,
            "--docker",
            engine.host(),
            "--simulate-gpus",
            "2",
            "--allow-mount",
            scratch.toString(),
            "--work-limit",
            "20m");
  }

  @AfterEach
  void leavesNothing() throws IOException {
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
    assertThat(mounted()).isEmpty();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  /** A run makes names that end the path for an engine that is given text, and begin another. */
  @Test
  void namesThatSayMoreThanAPathDoNotMountTheHost() {
    Heard first =
        server.run(
            shell(
                    "cd /s; ln -s / x; mkdir -p 'x:/host' 'y:rshared' 'w,readonly'; ln -s 'x:/host'"
                        + " z; ln -s 'y:rshared' q; echo here >'w,readonly/file'")
                .addMounts(mount(scratch, "/s")));
    assertThat(first.exited().getExitCode()).isZero();

    for (String name : List.of("z", "q")) {
      assertThat(
              refused(
                  Reason.INVALID,
                  shell("cat /host/etc/shadow; echo hi >/host" + scratch + "/pwned")
                      .addMounts(mount(scratch.resolve(name), "/tmp2"))))
          .endsWith("which leads to a path with ':' or control characters");
    }
    Heard comma =
        server.run(
            shell("cat /tmp2/file; echo new >/tmp2/file")
                .addMounts(mount(scratch.resolve("w,readonly"), "/tmp2")));
    assertThat(comma.exited().getExitCode()).isZero();
    assertThat(comma.outText()).isEqualTo("here\n");
    assertThat(scratch.resolve("w,readonly/file")).hasContent("new\n");
    assertThat(refused(Reason.DENIED, shell("true").addMounts(mount(scratch.resolve("x"), "/t"))))
        .startsWith("mount of " + scratch.resolve("x") + " asked, the administrator allows");
  }

  @Test
  void targetsThatTheEngineReadsAsThoseOfOthersAreRefused() {
    for (String target :
        List.of(
            "//proc", "/./sys", "/berth//mark", "/./berth", "//work", "/work/.", "//", "/dev/x")) {
      assertThat(refused(Reason.INVALID, shell("true").addMounts(mount(scratch, target))))
          .startsWith("nothing can be mounted at /");
    }
  }

  @Test
  void aLinkWithinTheAllowedFolderIsFollowedToWhereItLeads() throws IOException {
    Path real = Files.createDirectories(scratch.resolve("real"));
    Files.writeString(real.resolve("file"), "real\n");
    Path link = Files.createSymbolicLink(scratch.resolve("alias"), real);
    Heard heard = server.run(shell("cat /m/file").addMounts(mount(link, "/m")));
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("real\n");
  }

  /** Somebody swaps the folder for a link and back, all the time. */
  @Test
  void nobodyGetsOutByBeingFaster() throws Exception {
    Path mine = Files.createDirectory(scratch.resolve("mine"));
    Files.writeString(mine.resolve("file"), "mine\n");
    Path aside = scratch.resolve("mine.aside");
    AtomicBoolean racing = new AtomicBoolean(true);
    Thread racer = new Thread(() -> race(mine, aside, racing));
    racer.start();
    try {
      for (int i = 0; i < 30; i++) {
        Heard heard = server.run(shell("cat /m/file").addMounts(mount(mine, "/m")));
        heard.ended();
        assertThat(heard.outText()).isIn("mine\n", "");
      }
    } finally {
      racing.set(false);
      racer.join();
    }
    Heard unhindered = server.run(shell("cat /m/file").addMounts(mount(mine, "/m")));
    assertThat(unhindered.exited().getExitCode()).isZero();
    assertThat(unhindered.outText()).isEqualTo("mine\n");
  }

  private static void race(Path mine, Path aside, AtomicBoolean racing) {
    try {
      while (racing.get()) {
        Files.move(mine, aside, StandardCopyOption.ATOMIC_MOVE);
        Files.createSymbolicLink(mine, secret);
        Files.delete(mine);
        Files.move(aside, mine, StandardCopyOption.ATOMIC_MOVE);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Not in its working folder, but in the container itself: that is the machine's disk too. */
  @Test
  void aRunThatFillsTheDiskOfTheMachineIsEnded() {
    Heard heard = server.run(shell("head -c 40m /dev/zero >/tmp/large; exec sleep 1000"));

    assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_DISK_LIMIT);
    assertThat(heard.exited().getMessage()).endsWith(" 20 MiB allowed (--work-limit)");
  }

  /** A volume of the image is neither in the container's layer nor in its working folder. */
  @Test
  void aRunThatFillsAVolumeOfItsImageIsEnded() {
    String image = "berth-test/volume:1";
    String container = engine.docker("create", Engine.IMAGE, "true").trim();
    engine.docker("commit", "--change", "VOLUME /v", container, image);
    engine.docker("rm", container);
    try {
      Heard heard =
          server.run(shell("head -c 40m /dev/zero >/v/large; exec sleep 1000").setImage(image));

      assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_DISK_LIMIT);
      server.assertNothingLeft();
      assertThat(engine.docker("volume", "ls", "-q")).isEmpty();
    } finally {
      engine.docker("rmi", image);
    }
  }

  @Test
  void aRunThatFillsTheDiskWithFilesThatHaveNoNameIsEnded() {
    for (String file : List.of("/tmp/large", "/work/large")) {
      Heard heard =
          server.run(
              shell(
                  "exec 3>%s; rm %s; head -c 40m /dev/zero >&3; exec sleep 1000"
                      .formatted(file, file)));

      assertThat(heard.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_DISK_LIMIT);
    }
  }

  /** As a berthd leaves them that is killed between binding and starting. */
  @Test
  void whatAKilledServerHasBoundIsUnboundAndNothingIsDeletedThroughIt() throws Exception {
    Path kept = Files.createDirectory(scratch.resolve("kept"));
    Files.writeString(kept.resolve("file"), "kept\n");
    Heard heard =
        server.run(
            shell(AWAIT_GO + "; cat /m/file").addMounts(mount(kept, "/m")).setDetached(true));
    heard.ended();
    server.attach(heard.runId(), 0).await(EventCase.STARTED);
    server.kill();
    Path place = server.runFolder(heard.runId()).resolve("mounts");
    run("mount", "-t", "tmpfs", "berth", place.toString());
    Files.createDirectory(place.resolve("0"));
    run("mount", "--bind", kept.toString(), place.resolve("0").toString());

    server.start();
    Files.createFile(server.runFolder(heard.runId()).resolve("work/go"));
    Heard again = server.attach(heard.runId(), 0);

    assertThat(again.exited().getExitCode()).isZero();
    assertThat(again.outText()).isEqualTo("kept\n");
    server.assertNothingLeft();
    assertThat(mounted()).isEmpty();
    server.runs().removeRun(heard.runId(), RunServer.TIMEOUT);
    assertThat(server.runFolder(heard.runId())).doesNotExist();
    assertThat(kept.resolve("file")).hasContent("kept\n");
  }

  @Test
  void aRuleThatGivesRunsTheStateFolderOrTheEngineIsRefusedAtTheStart() {
    for (Path exposing : List.of(folder, engine.folder(), Path.of("/etc/berth"))) {
      Installed.Result result =
          Installed.run(
              Installed.command("berthd"),
              "--listen",
              "127.0.0.1:0",
              "--registry",
              "none",
              "--docker",
              engine.host(),
              "--simulate-gpus",
              "1",
              "--lock-dir",
              folder.resolve("locks").toString(),
              "--state-dir",
              folder.resolve("state2").toString(),
              "--allow-mount",
              exposing.toString());
      assertThat(result.exitCode()).isNotZero();
      assertThat(result.err())
          .contains("--allow-mount " + exposing + " is refused: it would give runs ");
    }
  }

  private static List<String> mounted() throws IOException {
    return Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
        .filter(line -> line.contains(server.state().toString()))
        .toList();
  }

  private static void run(String... words) {
    Installed.Result result = Installed.run(words);
    assertThat(result.exitCode()).as(result.err()).isZero();
  }

  private static String refused(Reason reason, RunCodeRequest.Builder request) {
    BerthException failure = server.run(request).failed();
    assertThat(failure.reason()).as(failure.getMessage()).isEqualTo(reason);
    return failure.getMessage();
  }

  private static Mount mount(Path source, String target) {
    return Mount.newBuilder().setSource(source.toString()).setTarget(target).build();
  }
}
