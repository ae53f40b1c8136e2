package berth.server.run.docker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** How containers get at GPUs. */
enum GpuAccess {
  /** They need not: the GPUs are simulated. */
  SIMULATED("simulated"),
  /** The engine's own way, by the NVIDIA hook that it finds. */
  DEVICE_REQUESTS("device requests"),
  /** The older way, by another OCI runtime. */
  NVIDIA_RUNTIME("nvidia runtime"),
  /** The newest way, by specifications of devices. */
  CDI("CDI"),
  /** In no way. */
  NONE(
      "none: the Docker engine has neither the NVIDIA hook (package nvidia-container-toolkit), nor"
          + " an nvidia runtime, nor a CDI specification of GPUs");

  private static final String HOOK = "nvidia-container-runtime-hook";

  private final String description;

  GpuAccess(String description) {
    this.description = description;
  }

  String description() {
    return description;
  }

  /**
   * Finds the way of an engine.
   *
   * @param runtimes the names of its OCI runtimes
   * @param path its search path for programs, in which it looks for the hook
   * @param cdiFolders where its CDI specifications are; none if it knows none
   */
  static GpuAccess find(Map<String, ?> runtimes, String path, List<Path> cdiFolders) {
    for (String folder : path.split(":")) {
      if (!folder.isEmpty() && Files.isExecutable(Path.of(folder, HOOK))) {
        return DEVICE_REQUESTS;
      }
    }
    if (runtimes.containsKey("nvidia")) {
      return NVIDIA_RUNTIME;
    }
    return cdiFolders.stream().anyMatch(GpuAccess::describesGpus) ? CDI : NONE;
  }

  /** The search path of the engine whose pid a file has, as far as this process may see it. */
  static String enginePath(Path pidFile) {
    List<String> folders = new ArrayList<>();
    try {
      int pid = Integer.parseInt(Files.readString(pidFile).trim());
      for (String variable : Files.readString(Path.of("/proc/" + pid, "environ")).split("\0")) {
        if (variable.startsWith("PATH=")) {
          folders.add(variable.substring("PATH=".length()));
        }
      }
    } catch (IOException | NumberFormatException e) {
      // Another machine's, another user's, or nobody wrote its pid down.
    }
    if (folders.isEmpty()) {
      folders.add(System.getenv().getOrDefault("PATH", ""));
      folders.add("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
    return String.join(":", folders);
  }

  private static boolean describesGpus(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.toList()) {
        if (Files.isRegularFile(file) && Files.readString(file).contains("nvidia.com/gpu")) {
          return true;
        }
      }
    } catch (IOException e) {
      // There is none.
    }
    return false;
  }
}
