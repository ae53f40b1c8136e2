package berth.server.run.docker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * NVIDIA's container toolkit. Before 1.17.8 an image can become root on the host through it
 * (CVE-2024-0132, CVE-2025-23359, CVE-2025-23266).
 *
 * @param version empty if it does not say
 */
record NvidiaToolkit(Optional<String> version) {
  private static final List<Integer> SAFE = List.of(1, 17, 8);
  private static final List<String> PROGRAMS =
      List.of("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime");
  private static final List<String> HOOKS =
      List.of("nvidia-container-runtime-hook", "nvidia-container-runtime");
  private static final Pattern VERSION =
      Pattern.compile("version:? v?(\\d{1,6})\\.(\\d{1,6})\\.(\\d{1,6})\\S*");
  private static final List<Path> SYSTEM_FOLDERS =
      Stream.of("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/sbin")
          .map(Path::of)
          .toList();
  private static final int WRITABLE_FOR_OTHERS = 022;
  private static final int WRITABLE_FOR_ALL = 002;
  private static final int STICKY = 01000;
  private static final int LONGEST_ANSWER = 4096;
  private static final int PATIENCE_SECONDS = 5;

  /**
   * Looks for it.
   *
   * @param path the engine's search path for programs, in which it looks for the hook. Nothing of
   *     it is executed: it is another process's word.
   */
  static Optional<NvidiaToolkit> find(String path) {
    return find(path, SYSTEM_FOLDERS);
  }

  /**
   * @param system folders whose programs may be asked for their version
   */
  static Optional<NvidiaToolkit> find(String path, List<Path> system) {
    Optional<Path> hook =
        HOOKS.stream()
            .flatMap(name -> locate(name, folders(path)).stream())
            .findFirst()
            .map(Path::getParent);
    if (hook.isPresent() && !system.contains(hook.get())) {
      // What the system's programs say is not the version of this one.
      return Optional.of(new NvidiaToolkit(Optional.empty()));
    }
    for (String program : PROGRAMS) {
      Optional<String> version =
          locate(program, system).filter(NvidiaToolkit::isRoots).flatMap(NvidiaToolkit::ask);
      if (version.isPresent()) {
        return Optional.of(new NvidiaToolkit(version));
      }
    }
    return hook.isPresent() || HOOKS.stream().anyMatch(name -> locate(name, system).isPresent())
        ? Optional.of(new NvidiaToolkit(Optional.empty()))
        : Optional.empty();
  }

  /** Whether its version is known to be one without the known holes. */
  boolean isSafe() {
    return version.map(NvidiaToolkit::parts).map(parts -> compare(parts, SAFE) >= 0).orElse(false);
  }

  /** What it is, for people, and what is wrong with it. */
  String description() {
    String name = "NVIDIA container toolkit " + version.orElse("of an unknown version");
    return isSafe()
        ? name
        : name + ": UNSAFE, an image may become root on the host; upgrade to 1.17.8 or later";
  }

  private static List<Path> folders(String path) {
    return Stream.of(path.split(":"))
        .filter(folder -> folder.startsWith("/"))
        .map(Path::of)
        .toList();
  }

  private static Optional<Path> locate(String program, List<Path> folders) {
    return folders.stream()
        .map(folder -> folder.resolve(program))
        .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
        .findFirst();
  }

  // Nobody else can have put it there, or can change it.
  private static boolean isRoots(Path program) {
    try {
      Path real = program.toRealPath();
      if ((mode(real) & WRITABLE_FOR_OTHERS) != 0) {
        return false;
      }
      for (Path each = real; each != null; each = each.getParent()) {
        boolean open = (mode(each) & WRITABLE_FOR_ALL) != 0 && (mode(each) & STICKY) == 0;
        if ((int) Files.getAttribute(each, "unix:uid") != 0 || open) {
          return false;
        }
      }
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  private static int mode(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:mode");
  }

  private static Optional<String> ask(Path program) {
    try {
      ProcessBuilder builder = new ProcessBuilder(program.toString(), "--version");
      builder.redirectErrorStream(true).redirectInput(Path.of("/dev/null").toFile());
      Process process = builder.start();
      try {
        if (!process.waitFor(PATIENCE_SECONDS, TimeUnit.SECONDS)) {
          return Optional.empty();
        }
        byte[] said = process.getInputStream().readNBytes(LONGEST_ANSWER);
        Matcher matcher = VERSION.matcher(new String(said, StandardCharsets.UTF_8));
        return matcher.find()
            ? Optional.of(matcher.group(1) + "." + matcher.group(2) + "." + matcher.group(3))
            : Optional.empty();
      } finally {
        process.destroyForcibly();
        process.getInputStream().close();
      }
    } catch (IOException e) {
      return Optional.empty();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return Optional.empty();
    }
  }

  private static List<Integer> parts(String version) {
    return List.of(version.split("\\.")).stream().map(Integer::valueOf).toList();
  }

  private static int compare(List<Integer> one, List<Integer> other) {
    for (int i = 0; i < SAFE.size(); i++) {
      int order = one.get(i).compareTo(other.get(i));
      if (order != 0) {
        return order;
      }
    }
    return 0;
  }
}
