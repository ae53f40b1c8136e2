package berth.server.run;

import berth.server.run.mount.MountTable;
import berth.server.run.mount.MountTable.Place;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Folders of this machine that runs must never see, whatever the administrator allows: whoever can
 * write there is root, or takes the GPUs of others. Also by other names: links and mounts.
 */
public final class ClosedFolders {
  /**
   * @param what for people
   * @param withContent whether a folder below it must not be seen either
   * @param readable whether it may be seen, though not be written to
   */
  private record Closed(Path path, String what, boolean withContent, boolean readable) {
    boolean exposedBy(Path folder) {
      return path.startsWith(folder) || withContent && folder.startsWith(path);
    }

    Closed real() {
      return new Closed(ClosedFolders.real(path), what, withContent, readable);
    }

    /** By whatever path, for a folder in which these places are seen. */
    boolean exposedBy(List<Place> seen, MountTable mounts) {
      return mounts.seenIn(path).stream()
          .limit(1)
          .anyMatch(
              own -> seen.stream().anyMatch(it -> own.isIn(it) || withContent && it.isIn(own)));
    }
  }

  // Whoever can write there is root soon.
  private static final List<String> SYSTEM =
      List.of(
          "/bin",
          "/sbin",
          "/lib",
          "/lib64",
          "/usr/bin",
          "/usr/sbin",
          "/usr/lib",
          "/usr/lib64",
          "/usr/local/bin",
          "/usr/local/sbin",
          "/usr/local/lib",
          "/boot",
          "/etc",
          "/var/spool/cron");

  private static final Path STATES = Path.of("/var/lib");
  private static final Path DEVICES = Path.of("/dev");
  // What is in it is memory, and no device.
  private static final Path SHARED_MEMORY = Path.of("/dev/shm");

  private final List<Closed> all = new ArrayList<>();
  private final Supplier<List<Path>> engine;

  /** None. */
  ClosedFolders() {
    engine = List::of;
  }

  /**
   * @param stateFolder of this server
   * @param lockFolder only what is directly in it matters: people have other folders in /tmp
   * @param engine what belongs to the engine, as far as that is known at the time
   */
  public ClosedFolders(Path stateFolder, Path lockFolder, Supplier<List<Path>> engine) {
    this.engine = engine;
    all.add(new Closed(stateFolder, "the state folder", true, false));
    all.add(new Closed(lockFolder, "the lock files", false, false));
    for (String folder :
        List.of(
            "/var/lib/docker",
            "/var/lib/containerd",
            "/etc/docker",
            "/etc/containerd",
            "/etc/cdi",
            "/etc/nvidia-container-runtime")) {
      all.add(ofEngine(Path.of(folder)));
    }
    for (String folder : List.of("/run", "/var/run")) {
      all.add(new Closed(Path.of(folder), "the sockets of this machine's services", true, false));
    }
    for (String folder : List.of("/proc", "/sys", "/dev")) {
      all.add(new Closed(Path.of(folder), "the kernel's files", true, false));
    }
    all.add(new Closed(Path.of("/etc/berth"), "Berth's configuration", true, false));
    all.add(new Closed(Path.of("/root/.ssh"), "root's keys", true, false));
    for (String home : List.of("berth.home", "java.home")) {
      Optional.ofNullable(System.getProperty(home))
          .ifPresent(path -> all.add(new Closed(Path.of(path), "programs of berthd", true, true)));
    }
    for (String folder : SYSTEM) {
      all.add(new Closed(Path.of(folder), "programs of this machine", true, true));
    }
  }

  /**
   * What a program would get that gets {@code folder}, as {@code the state folder (/path)}.
   *
   * @param readOnly whether it could only read there
   */
  Optional<String> exposedBy(Path folder, boolean readOnly) {
    if (all.isEmpty()) {
      return Optional.empty();
    }
    MountTable mounts = MountTable.read();
    Path realFolder = real(folder);
    boolean sharedMemory = isBelow(realFolder, SHARED_MEMORY);
    List<Place> seen = mounts.seenIn(realFolder);
    Stream<Closed> closed =
        Stream.of(
                all.stream(), statesOfServers(), engine.get().stream().map(ClosedFolders::ofEngine))
            .flatMap(Function.identity());
    for (Closed each : closed.toList()) {
      if (readOnly && each.readable || sharedMemory && each.path.equals(DEVICES)) {
        continue;
      }
      // By the names that were given and by the real ones, which may not exist yet.
      Closed real = each.real();
      if (each.exposedBy(folder) || real.exposedBy(realFolder) || real.exposedBy(seen, mounts)) {
        return Optional.of(each.what + " (" + each.path + ")");
      }
    }
    return Optional.empty();
  }

  private static boolean isBelow(Path path, Path folder) {
    return path.startsWith(folder) && !path.equals(folder);
  }

  // Of others than this one, by default.
  private static Stream<Closed> statesOfServers() {
    List<Path> found = new ArrayList<>(List.of(STATES.resolve("berth")));
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(STATES, "berth*")) {
      folders.forEach(found::add);
    } catch (IOException | DirectoryIteratorException e) {
      // There are none.
    }
    return found.stream()
        .map(path -> new Closed(path, "the state of Berth's servers", true, false));
  }

  private static Closed ofEngine(Path path) {
    return new Closed(path, "the container engine's files", true, false);
  }

  /** The path without links as far as it exists. */
  static Path real(Path path) {
    Path absolute = path.toAbsolutePath().normalize();
    for (Path above = absolute; above != null; above = above.getParent()) {
      try {
        return above.toRealPath().resolve(above.relativize(absolute));
      } catch (IOException e) {
        // Looked at again one level up.
      }
    }
    return absolute;
  }
}
