package berth.server.run;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Folders of this machine that runs must never see, whatever the administrator allows: whoever can
 * write there is root, or takes the GPUs of others.
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
  }

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
    for (String folder : List.of("/var/lib/docker", "/var/lib/containerd")) {
      all.add(ofEngine(Path.of(folder)));
    }
    for (String folder : List.of("/run", "/var/run")) {
      all.add(new Closed(Path.of(folder), "the sockets of this machine's services", true, false));
    }
    all.add(new Closed(Path.of("/etc/berth"), "Berth's configuration", true, false));
    for (String home : List.of("berth.home", "java.home")) {
      Optional.ofNullable(System.getProperty(home))
          .ifPresent(path -> all.add(new Closed(Path.of(path), "what berthd runs", true, true)));
    }
  }

  /**
   * What a program would get that gets {@code folder}, as {@code the state folder (/path)}.
   *
   * @param readOnly whether it could only read there
   */
  Optional<String> exposedBy(Path folder, boolean readOnly) {
    Stream<Closed> closed =
        Stream.concat(all.stream(), engine.get().stream().map(ClosedFolders::ofEngine));
    for (Closed each : closed.toList()) {
      // By the names that were given and by the real ones, which may not exist yet.
      if (!(readOnly && each.readable)
          && (each.exposedBy(folder) || each.real().exposedBy(real(folder)))) {
        return Optional.of(each.what + " (" + each.path + ")");
      }
    }
    return Optional.empty();
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
