package berth.server.run.mount;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.WorkFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** As root: these are real mounts. */
class RunMountsTest {
  @TempDir private Path temporary;
  private Path root;
  private Path allowed;
  private Path secret;
  private Path place;
  private final RunMounts mounts = new RunMounts(List::of);

  @BeforeEach
  void makeFolders() throws IOException {
    root = temporary.toRealPath();
    allowed = Files.createDirectories(root.resolve("scratch/a/b"));
    Files.writeString(allowed.resolve("file"), "allowed");
    secret = Files.createDirectories(root.resolve("secret/b"));
    Files.writeString(secret.resolve("file"), "secret");
    Files.writeString(secret.resolveSibling("file"), "secret");
    place = root.resolve("state/runs/run-1/mounts");
  }

  @AfterEach
  void leavesNothingMounted() throws IOException {
    mounts.unbind(place);
    assertThat(MountPoints.atOrBelow(root)).isEmpty();
  }

  @Test
  void whatIsBoundIsTheFolder() throws Exception {
    Path other = Files.createDirectories(root.resolve("with space\nand: line/x"));
    Files.writeString(other.resolve("file"), "other");

    List<Path> places = mounts.bind(place, folders(allowed, other));

    assertThat(places).containsExactly(place.resolve("bound/0"), place.resolve("bound/1"));
    assertThat(places.get(0).resolve("file")).hasContent("allowed");
    assertThat(places.get(1).resolve("file")).hasContent("other");
    mounts.unbind(place);
    assertThat(place).isEmptyDirectory();
    assertThat(allowed.resolve("file")).hasContent("allowed");
  }

  @Test
  void bindingAgainReplacesWhatAKilledProcessLeft() throws Exception {
    mounts.bind(place, folders(allowed));
    mounts.bind(place, folders(allowed));

    assertThat(new RunMounts(List::of).bind(place, folders(secret)).get(0).resolve("file"))
        .hasContent("secret");
    mounts.unbind(place);
    assertThat(MountPoints.atOrBelow(root)).isEmpty();
  }

  @Test
  void aLinkAnywhereInThePathIsRefused() throws Exception {
    Files.createSymbolicLink(root.resolve("link"), root.resolve("secret"));

    assertThatThrownBy(() -> mounts.bind(place, folders(root.resolve("link/b"))))
        .isInstanceOf(BerthException.class)
        .hasMessage(
            "mount of %s/link/b asked, but since it was checked %s/link has become a link or a"
                + " file",
            root, root);
    assertThatThrownBy(() -> mounts.bind(place, folders(root.resolve("link"))))
        .hasMessageContaining("has become a link or a file");
    assertThatThrownBy(() -> mounts.bind(place, folders(root.resolve("gone/b"))))
        .hasMessageContaining("there is no " + root.resolve("gone") + " any more");
  }

  /** At each step, every part of the path is swapped for a link that leads out. */
  @Test
  void aFolderThatIsSwappedForALinkAtAnyMomentNeverLeadsOut() throws Exception {
    int steps = steps().size();
    assertThat(steps).isGreaterThan(allowed.getNameCount());
    for (int step = 0; step < steps; step++) {
      for (Path swapped : List.of(allowed, allowed.getParent())) {
        Swap swap = new Swap(swapped, step);
        try {
          Path seen = hooked(swap).bind(place, folders(allowed)).get(0);
          assertThat(seen.resolve("file")).hasContent("allowed");
        } catch (BerthException e) {
          assertThat(e).hasMessageContaining("since it was checked");
        } finally {
          mounts.unbind(place);
          swap.undo();
        }
      }
    }
  }

  @Test
  void aFolderThatIsMovedWhileItIsOpenedIsRefused() throws Exception {
    Path elsewhere = root.resolve("elsewhere");
    Consumer<Path> move =
        path -> {
          if (path.equals(allowed)) {
            move(allowed.getParent(), elsewhere);
          }
        };
    assertThatThrownBy(() -> hooked(move).bind(place, folders(allowed)))
        .hasMessageEndingWith("since it was checked it was moved");
  }

  @Test
  void nobodyWinsARaceAgainstIt() throws Exception {
    AtomicBoolean racing = new AtomicBoolean(true);
    Thread racer =
        new Thread(
            () -> {
              while (racing.get()) {
                Swap swap = new Swap(allowed, 0);
                swap.accept(allowed);
                swap.undo();
              }
            });
    racer.start();
    try {
      for (int i = 0; i < 300; i++) {
        try {
          Path seen = mounts.bind(place, folders(allowed)).get(0);
          assertThat(seen.resolve("file")).hasContent("allowed");
        } catch (BerthException e) {
          assertThat(e).hasMessageContaining("since it was checked");
        }
        mounts.unbind(place);
      }
    } finally {
      racing.set(false);
      racer.join();
    }
  }

  @Test
  void nothingIsDeletedThroughAMount() throws Exception {
    mounts.bind(place, folders(allowed));

    assertThatThrownBy(() -> WorkFiles.delete(root.resolve("state/runs/run-1")))
        .isInstanceOf(IOException.class)
        .hasMessage("a folder is mounted at " + place);
    assertThat(allowed.resolve("file")).hasContent("allowed");

    mounts.unbind(place);
    WorkFiles.delete(root.resolve("state/runs/run-1"));
    assertThat(root.resolve("state/runs")).isEmptyDirectory();
    assertThat(allowed.resolve("file")).hasContent("allowed");
  }

  @Test
  void isDoneWhereTheEngineSeesItWhenBerthdHasAViewOfItsOwn() throws Exception {
    Files.createDirectories(place);
    // As systemd's hardening: what is mounted outside is seen inside, not the other way round.
    Process engine =
        new ProcessBuilder("unshare", "--mount", "--propagation", "private", "cat")
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try {
      // The other view is there when it answers.
      engine.getOutputStream().write('\n');
      engine.getOutputStream().flush();
      assertThat(engine.getInputStream().read()).isEqualTo('\n');
      int pid = (int) engine.pid();
      RunMounts theirs = new RunMounts(() -> List.of(pid));

      theirs.bind(place, folders(allowed));

      assertThat(seenBy(pid)).contains(place + " ").contains(place + "/bound/0 ");
      assertThat(MountPoints.atOrBelow(root)).isEmpty();
      assertThat(place).isEmptyDirectory();
      theirs.unbind(place);
      assertThat(seenBy(pid)).doesNotContain(place.toString());
    } finally {
      engine.destroyForcibly().waitFor();
    }
  }

  /** As a network's that has gone between the check and the mount. */
  @Test
  void aFileSystemThatHangsHoldsNobodyUpAndChangesNothingLater() throws Exception {
    CountDownLatch answer = new CountDownLatch(1);
    CompletableFuture<Thread> hanging = new CompletableFuture<>();
    Consumer<Path> hang =
        path -> {
          if (path.equals(allowed)) {
            hanging.complete(Thread.currentThread());
            try {
              answer.await();
            } catch (InterruptedException e) {
              throw new AssertionError(e);
            }
          }
        };
    RunMounts impatient = new RunMounts(List::of, hang, Duration.ofMillis(100));
    try {
      assertThatThrownBy(() -> impatient.bind(place, folders(allowed)))
          .hasMessage("mount of " + allowed + " asked, but a file system does not answer")
          .extracting("reason")
          .isEqualTo(Reason.UNAVAILABLE);
      assertThat(MountPoints.atOrBelow(root)).isEmpty();
      mounts.bind(place, folders(secret));
    } finally {
      answer.countDown();
    }
    hanging.join().join();
    assertThat(place.resolve("bound/0/file")).hasContent("secret");
  }

  private static RunMounts hooked(Consumer<Path> beforeStep) {
    return new RunMounts(List::of, beforeStep, RunMounts.PATIENCE);
  }

  private static List<RunMounts.Folder> folders(Path... paths) {
    return Stream.of(paths).map(path -> new RunMounts.Folder(path, false)).toList();
  }

  /** As systemd has it: whatever is mounted or unmounted in one place is so in all its copies. */
  @Test
  void whatIsMountedInsideOfAFolderStaysMountedThere() throws Exception {
    run("mount", "-t", "tmpfs", "shared", allowed.toString());
    try {
      run("mount", "--make-rshared", allowed.toString());
      Path disk = Files.createDirectory(allowed.resolve("disk"));
      run("mount", "-t", "tmpfs", "disk", disk.toString());
      Files.writeString(disk.resolve("file"), "on the disk");

      Path seen = mounts.bind(place, folders(allowed)).get(0);
      assertThat(seen.resolve("disk/file")).hasContent("on the disk");
      mounts.unbind(place);

      assertThat(disk.resolve("file")).hasContent("on the disk");
      assertThat(MountPoints.atOrBelow(root)).containsExactly(allowed + "", disk + "");
    } finally {
      run("umount", "-R", allowed.toString());
    }
  }

  @Test
  void whatMayOnlyBeReadIsReadOnlyWithAllThatIsMountedInside() throws Exception {
    run("mount", "-t", "tmpfs", "outer", allowed.toString());
    try {
      Path disk = Files.createDirectory(allowed.resolve("disk"));
      run("mount", "-t", "tmpfs", "disk", disk.toString());

      Path seen = mounts.bind(place, List.of(new RunMounts.Folder(allowed, true))).get(0);
      for (String name : List.of("new", "disk/new")) {
        assertThatThrownBy(() -> Files.createFile(seen.resolve(name)))
            .hasMessageContaining("Read-only file system");
      }
      mounts.unbind(place);
      Files.createFile(disk.resolve("new"));
      Path again = mounts.bind(place, folders(allowed)).get(0);
      Files.createFile(again.resolve("disk/newer"));
      mounts.unbind(place);
    } finally {
      run("umount", "-R", allowed.toString());
    }
  }

  /** Anybody can mount something in their home. */
  @Test
  void aMountPointWhoseNameIsNoTextHindersNobody() throws Exception {
    Path odd = Files.createDirectory(root.resolve("odd"));
    for (String name : List.of("$'\\xff'", "$'a\\r\\rb'", "$'a b\\nc'")) {
      String at = "\"$0\"/" + name;
      run("bash", "-c", "mkdir " + at + " && mount -t tmpfs odd " + at, odd.toString());
      try {
        assertThat(MountPoints.atOrBelow(odd)).hasSize(1);
        Path other = Files.createDirectory(root.resolve("other"));
        WorkFiles.delete(other);
        assertThat(other).doesNotExist();
      } finally {
        run("bash", "-c", "umount " + at + " && rmdir " + at, odd.toString());
      }
    }
  }

  private static void run(String... command) throws Exception {
    assertThat(new ProcessBuilder(command).inheritIO().start().waitFor()).isZero();
  }

  private static String seenBy(int pid) throws IOException {
    return Files.readString(Path.of("/proc/" + pid + "/mountinfo"));
  }

  @Test
  void aStateFolderThatOthersCanChangeIsRefused() throws IOException {
    assertThat(mounts.problem(root)).isEmpty();
    Path open = Files.createDirectories(root.resolve("open/state"));
    Files.setAttribute(open.getParent(), "unix:mode", 0777);
    assertThat(mounts.problem(open).orElseThrow())
        .isEqualTo(
            open.getParent() + " is writable by users other than root: choose another --state-dir");
    Files.setAttribute(open.getParent(), "unix:mode", 0755);
    Files.setAttribute(open.getParent(), "unix:uid", 65534);
    assertThat(mounts.problem(open)).isPresent();
  }

  private List<Path> steps() throws InterruptedException {
    List<Path> steps = new ArrayList<>();
    hooked(steps::add).bind(place, folders(allowed));
    mounts.unbind(place);
    return steps;
  }

  private static void move(Path from, Path to) {
    try {
      Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Swaps a folder for a link to the secret one, before the given step. */
  private final class Swap implements Consumer<Path> {
    private final Path folder;
    private final Path aside;
    private int left;
    private boolean done;

    Swap(Path folder, int step) {
      this.folder = folder;
      this.aside = folder.resolveSibling(folder.getFileName() + ".aside");
      this.left = step;
    }

    @Override
    public void accept(Path next) {
      if (left-- == 0) {
        move(folder, aside);
        try {
          Files.createSymbolicLink(folder, root.resolve("secret"));
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
        done = true;
      }
    }

    void undo() {
      if (done) {
        try {
          Files.delete(folder);
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
        move(aside, folder);
      }
    }
  }
}
