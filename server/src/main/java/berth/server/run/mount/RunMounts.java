package berth.server.run.mount;

import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLong;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Binds folders to places that only this user can change, for an engine that follows every link. A
 * folder is opened name by name without following any, and what was opened is what is bound: who
 * swaps the folder for a link, at whatever moment, is refused or has no effect. Any thread may
 * call.
 *
 * <p>The places are in a small file system of their own. So an engine that does not see the mounts
 * does not see the places either, and refuses, rather than to give a program an empty folder.
 */
public final class RunMounts {
  private static final int CAP_SYS_CHROOT = 18;
  private static final int CAP_SYS_ADMIN = 21;
  private static final int STICKY = 01000;
  private static final int WRITABLE_FOR_OTHERS = 022;
  private static final int OPEN_FOLDER =
      MountCalls.O_PATH | MountCalls.O_DIRECTORY | MountCalls.O_NOFOLLOW | MountCalls.O_CLOEXEC;

  // Longer than any file system takes that is there.
  static final Duration PATIENCE = Duration.ofSeconds(60);

  // In a second small file system: what is made in the first is seen wherever that is.
  private static final String INNER = "bound";

  /**
   * A folder to bind.
   *
   * @param path absolute and without links
   * @param readOnly also what is mounted inside of it
   */
  public record Folder(Path path, boolean readOnly) {}

  private final Supplier<List<Integer>> engine;
  private final Consumer<Path> beforeStep;
  private final Duration patience;

  /**
   * @param engine processes of which the first that can be looked at sees the mounts that the
   *     engine sees
   */
  public RunMounts(Supplier<List<Integer>> engine) {
    this(engine, path -> {}, PATIENCE);
  }

  /**
   * @param beforeStep told, for tests, what is opened or bound next
   * @param patience with a file system that hangs
   */
  RunMounts(Supplier<List<Integer>> engine, Consumer<Path> beforeStep, Duration patience) {
    this.engine = engine;
    this.beforeStep = beforeStep;
    this.patience = patience;
  }

  /** Why nothing can be bound below a folder, as a sentence. */
  public Optional<String> problem(Path folder) {
    try {
      if (!capable(CAP_SYS_ADMIN) || !(namespace().isOwn() || capable(CAP_SYS_CHROOT))) {
        return Optional.of(
            "this berthd may not mount folders: run it as root, in a container with"
                + " --cap-add SYS_ADMIN");
      }
      for (Path above = folder.toRealPath(); above != null; above = above.getParent()) {
        int owner = (int) Files.getAttribute(above, "unix:uid");
        int mode = (int) Files.getAttribute(above, "unix:mode");
        if (owner != 0 || (mode & WRITABLE_FOR_OTHERS) != 0 && (mode & STICKY) == 0) {
          return Optional.of(
              above + " is writable by users other than root: choose another --state-dir");
        }
      }
      return Optional.empty();
    } catch (IOException e) {
      return Optional.of("cannot look at " + folder + ": " + e.getMessage());
    }
  }

  private static boolean capable(int capability) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("CapEff:")) {
        long effective = Long.parseUnsignedLong(line.substring(7).trim(), 16);
        return (effective >> capability & 1) == 1;
      }
    }
    return false;
  }

  /**
   * Binds folders to places below {@code place}, which is made, in place of what was there.
   *
   * @return the places, in the same order
   * @throws BerthException if a path has become a link or leads to no folder, or this process may
   *     not mount; UNAVAILABLE if a file system hangs
   */
  public List<Path> bind(Path place, List<Folder> folders) throws InterruptedException {
    if (folders.isEmpty()) {
      return List.of();
    }
    try {
      StateFolder.create(place);
      return namespace().call(patience, gate -> bindHere(place, folders, gate));
    } catch (TimeoutException e) {
      throw hangs(
          "mount of " + folders.get(0).path + " asked, but a file system does not answer", e);
    } catch (IOException | LastErrorException e) {
      throw cannotMount(e);
    }
  }

  /** Undoes {@link #bind}, also that of an earlier process; does nothing if there is nothing. */
  public void unbind(Path place) {
    if (!Files.exists(place)) {
      return;
    }
    boolean interrupted = false;
    try {
      while (true) {
        try {
          namespace().call(patience, gate -> unbindHere(place));
          unbindHere(place);
          return;
        } catch (InterruptedException e) {
          // The kernel does not take long.
          interrupted = true;
        }
      }
    } catch (TimeoutException e) {
      throw hangs("cannot unmount " + place + ": the kernel does not answer", e);
    } catch (IOException | LastErrorException e) {
      throw cannotMount(e);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private MountNamespace namespace() {
    return new MountNamespace(engine.get());
  }

  private List<Path> bindHere(Path place, List<Folder> folders, MountNamespace.Gate gate)
      throws IOException {
    List<Integer> opened = new ArrayList<>();
    try {
      // Only this can hang: from here on no file system is asked but those in memory.
      for (Folder folder : folders) {
        opened.add(open(folder.path));
      }
      gate.pass();
      unbindHere(place);
      return bindHere(place, folders, opened);
    } finally {
      opened.forEach(MountCalls.INSTANCE::close);
    }
  }

  private List<Path> bindHere(Path place, List<Folder> folders, List<Integer> opened)
      throws IOException {
    try {
      Path inner = place.resolve(INNER);
      makeSmallFileSystem(place);
      MountCalls.INSTANCE.mkdir(inner.toString(), 0700);
      makeSmallFileSystem(inner);
      List<Path> places = new ArrayList<>();
      for (Folder folder : folders) {
        Path target = inner.resolve(String.valueOf(places.size()));
        beforeStep.accept(target);
        MountCalls.INSTANCE.mkdir(target.toString(), 0700);
        mount(
            "/proc/self/fd/" + opened.get(places.size()),
            target,
            null,
            MountCalls.MS_BIND | MountCalls.MS_REC,
            null);
        makePrivate(target);
        if (folder.readOnly) {
          makeReadOnly(target);
        }
        places.add(target);
      }
      return places;
    } catch (IOException | RuntimeException e) {
      unbindHere(place);
      throw e;
    }
  }

  private static void makeSmallFileSystem(Path at) {
    mount("berth", at, "tmpfs", MountCalls.MS_NOSUID | MountCalls.MS_NODEV, "size=64k,mode=0700");
    makePrivate(at);
  }

  // What is bound shares its mounts with where it comes from. To unmount them here must not unmount
  // them there: a disk that is mounted inside of the folder would be gone for the whole machine.
  private static void makePrivate(Path at) {
    mount(null, at, null, MountCalls.MS_REC | MountCalls.MS_PRIVATE, null);
  }

  // Engines make only the folder itself read-only, not what is mounted inside of it.
  private static void makeReadOnly(Path target) throws IOException {
    Memory attributes = new Memory(32);
    attributes.clear();
    attributes.setLong(0, MountCalls.MOUNT_ATTR_RDONLY);
    try {
      MountCalls.INSTANCE.syscall(
          new NativeLong(MountCalls.SYS_mount_setattr),
          new NativeLong(MountCalls.AT_FDCWD),
          target.toString(),
          new NativeLong(MountCalls.AT_RECURSIVE),
          attributes,
          new NativeLong(attributes.size()));
    } catch (LastErrorException e) {
      if (e.getErrorCode() != MountCalls.ENOSYS || MountPoints.atOrBelow(target).size() > 1) {
        throw e;
      }
      // Before Linux 5.12: the engine does it for a folder without others inside.
    }
  }

  private static Void unbindHere(Path place) {
    // Whatever is mounted inside goes with it.
    while (true) {
      try {
        makePrivate(place);
        MountCalls.INSTANCE.umount2(
            place.toString(), MountCalls.MNT_DETACH | MountCalls.UMOUNT_NOFOLLOW);
      } catch (LastErrorException e) {
        if (e.getErrorCode() == MountCalls.EINVAL || e.getErrorCode() == MountCalls.ENOENT) {
          return null;
        }
        if (e.getErrorCode() == MountCalls.EPERM && !isMounted(place)) {
          return null;
        }
        throw e;
      }
    }
  }

  private static boolean isMounted(Path place) {
    try {
      return !MountPoints.atOrBelow(place).isEmpty();
    } catch (IOException e) {
      return true;
    }
  }

  /** Opens a folder name by name, and follows no link on the way. */
  private int open(Path folder) throws IOException {
    MountCalls calls = MountCalls.INSTANCE;
    int fd = calls.open("/", OPEN_FOLDER);
    Path reached = Path.of("/");
    boolean done = false;
    try {
      for (Path name : folder) {
        reached = reached.resolve(name);
        beforeStep.accept(reached);
        int next = calls.openat(fd, name.toString(), OPEN_FOLDER);
        calls.close(fd);
        fd = next;
      }
      // Moved while it was being opened: then another rule may be the one that counts.
      if (!Files.readSymbolicLink(Path.of("/proc/self/fd/" + fd)).equals(folder)) {
        throw changed(folder, "it was moved");
      }
      done = true;
      return fd;
    } catch (LastErrorException e) {
      throw switch (e.getErrorCode()) {
        case MountCalls.ENOTDIR, MountCalls.ELOOP ->
            changed(folder, reached + " has become a link or a file");
        case MountCalls.ENOENT -> changed(folder, "there is no " + reached + " any more");
        case MountCalls.EACCES -> changed(folder, "berthd may not enter " + reached);
        default -> e;
      };
    } finally {
      if (!done) {
        calls.close(fd);
      }
    }
  }

  private static void mount(String source, Path target, String type, int flags, String data) {
    MountCalls.INSTANCE.mount(source, target.toString(), type, new NativeLong(flags), data);
  }

  private static BerthException changed(Path folder, String what) {
    return new BerthException(
        Reason.CONFLICT, "mount of " + folder + " asked, but since it was checked " + what);
  }

  private static BerthException hangs(String what, TimeoutException e) {
    return new BerthException(Reason.UNAVAILABLE, what, e);
  }

  private static BerthException cannotMount(Exception e) {
    return new BerthException(
        Reason.CONFLICT, "berthd cannot mount folders for containers: " + e.getMessage(), e);
  }
}
