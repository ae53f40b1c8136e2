package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import berth.host.lock.KernelFiles;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MountRulesTest {
  @TempDir private Path temporary;
  private Path root;
  private Path data;
  private Path scratch;
  private MountRules rules;

  @BeforeEach
  void makeFolders() throws IOException {
    root = temporary.toRealPath();
    data = Files.createDirectories(root.resolve("data/sets")).getParent();
    scratch = Files.createDirectories(root.resolve("scratch/me")).getParent();
    Files.createDirectory(root.resolve("secret"));
    rules = parse(List.of(data + ":ro", scratch.toString()));
  }

  @Test
  void allowsFoldersBelowThoseOfTheAdministrator() {
    assertThat(rules.check(data, true)).isEqualTo(data);
    assertThat(rules.check(data.resolve("sets"), true)).isEqualTo(data.resolve("sets"));
    assertThat(rules.check(scratch.resolve("me"), true)).isEqualTo(scratch.resolve("me"));
    assertThat(rules.check(scratch.resolve("me"), false)).isEqualTo(scratch.resolve("me"));
    assertThat(parse(List.of("/:rw")).check(data, false)).isEqualTo(data);
    assertThat(parse(List.of(data + ":rw")).check(data, false)).isEqualTo(data);
  }

  @Test
  void deniesAllOthers() throws IOException {
    Files.createDirectory(root.resolve("scratch2"));
    for (String name : new String[] {"secret", "", "scratch2", "scratch/../secret", "missing"}) {
      Path source = root.resolve(name);
      assertThatThrownBy(() -> rules.check(source, true))
          .hasMessage(
              "mount of %s asked, the administrator allows %s (read only), %s",
              source, data, scratch)
          .extracting("reason")
          .isEqualTo(Reason.DENIED);
    }
    assertThatThrownBy(() -> parse(List.of()).check(data, true))
        .hasMessage("mount of " + data + " asked, the administrator allows none");
  }

  @Test
  void deniesWritingWhereOnlyReadingIsAllowed() {
    assertThatThrownBy(() -> rules.check(data.resolve("sets"), false))
        .hasMessage(
            "mount of %s to write to asked, the administrator allows %s (read only), %s",
            data.resolve("sets"), data, scratch)
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void followsLinksBeforeItDecides() throws IOException {
    Path out = Files.createSymbolicLink(scratch.resolve("out"), root.resolve("secret"));
    assertThatThrownBy(() -> rules.check(out, true)).extracting("reason").isEqualTo(Reason.DENIED);
    Path in = Files.createSymbolicLink(root.resolve("in"), scratch.resolve("me"));
    assertThat(rules.check(in, false)).isEqualTo(scratch.resolve("me"));
    Path readOnly = Files.createSymbolicLink(scratch.resolve("sets"), data.resolve("sets"));
    assertThatThrownBy(() -> rules.check(readOnly, false))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    Path alias = Files.createSymbolicLink(root.resolve("alias"), scratch);
    assertThat(parse(List.of(alias.toString())).check(alias.resolve("me"), false))
        .isEqualTo(scratch.resolve("me"));
    assertThatThrownBy(() -> parse(List.of(alias + "")).check(alias.resolve("missing"), true))
        .hasMessageContaining("there is no such folder");
    // Two names of one folder: the stricter rule counts, in whichever order they stand.
    for (List<String> both :
        List.of(List.of(alias + ":ro", scratch + ""), List.of(scratch + ":ro", alias + ""))) {
      assertThatThrownBy(() -> parse(both).check(alias, false))
          .extracting("reason")
          .isEqualTo(Reason.DENIED);
    }
  }

  @Test
  void letsTheMostSpecificRuleDecide() {
    MountRules open = parse(List.of(data + ":ro", data.resolve("sets") + ":rw"));
    assertThat(open.check(data.resolve("sets"), false)).isEqualTo(data.resolve("sets"));
    MountRules closed = parse(List.of(data + ":rw", data.resolve("sets") + ":ro"));
    assertThatThrownBy(() -> closed.check(data.resolve("sets"), false))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    assertThat(closed.check(data.resolve("sets"), true)).isEqualTo(data.resolve("sets"));
  }

  @Test
  void deniesWritingToAFolderAroundOneThatMayOnlyBeRead() {
    Path sets = data.resolve("sets");
    MountRules closed = parse(List.of(data + ":rw", sets + ":ro"));
    assertThat(closed.check(data, true)).isEqualTo(data);
    assertThatThrownBy(() -> closed.check(data, false))
        .hasMessage(
            "mount of %s to write to, with %s inside asked, the administrator allows %s, %s (read"
                + " only)",
            data, sets, data, sets)
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void refusesWhatIsNoFolder() throws IOException {
    assertThatThrownBy(() -> rules.check(Path.of("data"), true))
        .hasMessage("mount of 'data' asked, which is not an absolute path")
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
    Path file = Files.createFile(scratch.resolve("file"));
    for (Path source : new Path[] {scratch.resolve("missing"), file}) {
      assertThatThrownBy(() -> rules.check(source, true))
          .hasMessage("mount of " + source + " asked, there is no such folder on this server")
          .extracting("reason")
          .isEqualTo(Reason.INVALID);
    }
  }

  @Test
  void knowsRulesForFoldersThatAreNotThereYet() throws IOException {
    Path later = root.resolve("later");
    MountRules known = parse(List.of(later.toString()));
    assertThatThrownBy(() -> known.check(data, true)).extracting("reason").isEqualTo(Reason.DENIED);
    Files.createDirectory(later);
    assertThat(known.check(later, false)).isEqualTo(later);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "data", ":ro", "/data:r", "/a:b:ro", "~/x"})
  void refusesRulesThatAreNone(String entry) {
    assertThatThrownBy(() -> parse(List.of(entry)))
        .hasMessage(
            "'" + entry + "' is not an absolute folder for mounts such as /data or /data:ro")
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void refusesTwoRulesForOneFolder() {
    assertThatThrownBy(() -> parse(List.of("/data:ro", "/data/")))
        .hasMessage("the folder /data for mounts is given twice");
  }

  @Test
  void refusesRulesThatExposeWhatMakesAnyoneRoot() throws IOException {
    Path state = Files.createDirectories(root.resolve("lib/berth/gpu01"));
    Path locks = Files.createDirectories(root.resolve("tmp"));
    Path engine = Files.createDirectories(root.resolve("disk/docker"));
    Path alias = Files.createSymbolicLink(root.resolve("alias"), root.resolve("lib"));
    var closed = new ClosedFolders(state, locks, () -> List.of(engine));
    for (Path exposing :
        List.of(
            Path.of("/"),
            root,
            state,
            state.getParent(),
            state.resolve("runs"),
            alias,
            alias.resolve("berth/gpu01/runs"),
            locks,
            engine,
            engine.getParent(),
            engine.resolve("overlay2"),
            Path.of("/var/lib/docker"),
            Path.of("/var/lib"),
            Path.of("/run"),
            Path.of("/run/user"),
            Path.of("/var/run/docker"),
            Path.of("/etc"),
            Path.of("/etc/berth"),
            Path.of("/etc/docker"),
            Path.of("/etc/containerd/certs.d"),
            Path.of("/etc/cdi"),
            Path.of("/etc/nvidia-container-runtime"),
            Path.of("/var/lib/containerd"),
            Path.of("/var/lib/berth"),
            Path.of("/var/lib/berth/other/runs"),
            Path.of("/proc"),
            Path.of("/proc/1"),
            Path.of("/sys"),
            Path.of("/sys/fs/cgroup"),
            Path.of("/dev"),
            Path.of("/dev/mapper"),
            Path.of("/dev/shm"),
            Path.of("/root"),
            Path.of("/root/.ssh"))) {
      assertThatThrownBy(() -> MountRules.parse(List.of(exposing + ":ro"), closed))
          .as("%s", exposing)
          .hasMessageStartingWith(
              "--allow-mount " + exposing + ":ro is refused: it would give runs ")
          .extracting("reason")
          .isEqualTo(Reason.INVALID);
    }
    assertThatThrownBy(() -> MountRules.parse(List.of(state.getParent().toString()), closed))
        .hasMessageEndingWith("it would give runs the state folder (" + state + ")");
    Path inTmp = Files.createDirectories(locks.resolve("scratch"));
    MountRules rules = MountRules.parse(List.of(inTmp.toString(), data.toString()), closed);
    assertThat(rules.check(inTmp, false)).isEqualTo(inTmp);
  }

  @Test
  void whatThisMachineRunsMayBeReadAndNotWrittenTo() {
    var closed = new ClosedFolders(root.resolve("lib"), root.resolve("tmp"), List::of);
    for (String folder :
        List.of("/usr", "/usr/bin", "/lib/x", "/etc/cron.d", "/usr/local/bin", "/boot")) {
      assertThatThrownBy(() -> MountRules.parse(List.of(folder), closed))
          .as(folder)
          .hasMessageContaining("is refused: it would give runs ");
    }
    MountRules.parse(
        List.of("/usr:ro", "/etc/ssl:ro", "/usr/local/share", "/opt/data", "/root/data"), closed);
  }

  @Test
  void sharedMemoryIsNoDevice() throws IOException {
    Path memory = Files.createTempDirectory(Path.of("/dev/shm"), "berth-test");
    try {
      var closed = new ClosedFolders(root.resolve("lib"), root.resolve("tmp"), List::of);
      assertThat(MountRules.parse(List.of(memory.toString()), closed).check(memory, false))
          .isEqualTo(memory);
    } finally {
      Files.delete(memory);
    }
  }

  /** Another name of a folder that no link tells of. */
  @Test
  void whatIsClosedIsSoAlsoWhereItIsMountedAgain() throws Exception {
    assumeTrue(KernelFiles.isRoot(), "needs root");
    Path layer = Files.createDirectories(root.resolve("engine/overlay2/layer"));
    Path engine = root.resolve("engine");
    var closed = new ClosedFolders(root.resolve("lib"), root.resolve("tmp"), () -> List.of(engine));
    Path around = Files.createDirectories(scratch.resolve("around"));
    Path alias = Files.createDirectory(around.resolve("alias"));
    MountRules early = MountRules.parse(List.of(scratch.toString()), closed);
    for (Path source : List.of(engine, layer.getParent(), layer)) {
      mount("--bind", source.toString(), alias.toString());
      try {
        for (Path exposing : List.of(alias, around, scratch)) {
          assertThatThrownBy(() -> MountRules.parse(List.of(exposing + ":ro"), closed))
              .as("%s at %s", source, exposing)
              .hasMessageEndingWith("the container engine's files (" + engine + ")");
          assertThatThrownBy(() -> early.check(exposing, true))
              .extracting("reason")
              .isEqualTo(Reason.DENIED);
        }
        assertThat(early.check(scratch.resolve("me"), false)).isEqualTo(scratch.resolve("me"));
      } finally {
        run("umount", alias.toString());
      }
    }
    mount("-t", "proc", "proc", alias.toString());
    try {
      assertThatThrownBy(() -> early.check(around, true))
          .hasMessageContaining("which would expose the kernel's files (/proc)");
    } finally {
      run("umount", alias.toString());
    }
    assertThat(early.check(around, false)).isEqualTo(around);
  }

  private static void mount(String... words) throws Exception {
    List<String> all = new ArrayList<>(List.of("mount"));
    all.addAll(List.of(words));
    run(all.toArray(String[]::new));
  }

  private static void run(String... words) throws Exception {
    assertThat(new ProcessBuilder(words).inheritIO().start().waitFor()).isZero();
  }

  @Test
  void whatIsClosedIsSoAlsoIfItComesLater() throws IOException {
    Path engine = root.resolve("later/docker");
    List<Path> closed = new ArrayList<>();
    MountRules rules =
        MountRules.parse(
            List.of(root.resolve("later").toString()),
            new ClosedFolders(root.resolve("lib"), root.resolve("tmp"), () -> closed));
    Files.createDirectories(engine);
    assertThat(rules.check(engine, true)).isEqualTo(engine);
    closed.add(engine);
    assertThatThrownBy(() -> rules.check(engine, true))
        .hasMessageContaining("which would expose the container engine's files (" + engine + ")")
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void berthdsOwnProgramsMayBeReadAndNotWrittenTo() {
    Path java = Path.of(System.getProperty("java.home"));
    var closed = new ClosedFolders(root.resolve("lib"), root.resolve("tmp"), List::of);
    assertThatThrownBy(() -> MountRules.parse(List.of(java + ":rw"), closed))
        .hasMessageEndingWith("it would give runs programs of berthd (" + java + ")");
    MountRules.parse(List.of(java + ":ro"), closed);
  }

  /** A program that may write to the folder around can replace it. */
  @Test
  void aLinkInPlaceOfTheFolderOfARuleMovesNoRule() throws IOException {
    Path fast = Files.createDirectory(scratch.resolve("fast"));
    Path secret = root.resolve("secret");
    MountRules both = parse(List.of(scratch.toString(), fast.toString()));
    assertThat(both.check(fast, false)).isEqualTo(fast);
    Files.move(fast, scratch.resolve("aside"));
    Files.createSymbolicLink(fast, secret);
    assertThatThrownBy(() -> both.check(fast, false)).extracting("reason").isEqualTo(Reason.DENIED);
    assertThatThrownBy(() -> both.check(secret, true))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);

    Path missing = scratch.resolve("datasets");
    MountRules later = parse(List.of(scratch.toString(), missing + ":ro"));
    Files.createSymbolicLink(missing, secret);
    assertThatThrownBy(() -> later.check(missing, true))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    // Who could write around it could put something in its place.
    assertThatThrownBy(() -> later.check(scratch, false))
        .hasMessageContaining("to write to, with " + missing + " inside");
  }

  /** The name ended the path for the engine, and began a second one. */
  @Test
  void aRealPathWithAColonOrControlCharactersIsRefused() throws IOException {
    for (String name : List.of("x:", "a\nb", "a\u202eb")) {
      Path odd = Files.createDirectories(scratch.resolve(name).resolve("host"));
      Path link = Files.createSymbolicLink(scratch.resolve("z" + name.length()), odd);
      assertThatThrownBy(() -> rules.check(link, false))
          .hasMessage(
              "mount of %s asked, which leads to a path with ':' or control characters", link);
      Files.delete(link);
    }
  }

  private static MountRules parse(List<String> entries) {
    return MountRules.parse(entries, new ClosedFolders());
  }
}
