package berth.server.run.docker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What an engine is on this machine.
 *
 * @param host its address, such as {@code unix:///var/run/docker.sock}
 */
record EngineHost(String host) {
  /** None for an engine that is reached by TCP. */
  Optional<Path> socket() {
    return host.startsWith("unix://")
        ? Optional.of(Path.of(host.substring("unix://".length())))
        : Optional.empty();
  }

  /** Where it has written its pid: engines do so beside their socket. */
  Path pidFile() {
    Path socket = socket().orElse(Path.of("/run/docker.sock"));
    try {
      return socket.toRealPath().resolveSibling("docker.pid");
    } catch (IOException e) {
      return socket.resolveSibling("docker.pid");
    }
  }

  /** Who sees the mounts that the engine sees: itself, or else whoever started this machine. */
  List<Integer> pids() {
    List<Integer> pids = new ArrayList<>();
    try {
      int pid = Integer.parseInt(Files.readString(pidFile()).trim());
      // Another may have the number by now.
      if (Files.readString(Path.of("/proc/" + pid + "/comm")).trim().equals("dockerd")) {
        pids.add(pid);
      }
    } catch (IOException | NumberFormatException e) {
      // Nobody wrote it down, or it is away.
    }
    pids.add(1);
    return pids;
  }
}
