package berth.e2e;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** What a test has left behind. */
final class Leftovers {
  private Leftovers() {}

  /** The processes that have a file below {@code folder} open, or name it in their command. */
  static List<String> processesIn(Path folder) {
    List<String> found = new ArrayList<>();
    try (Stream<ProcessHandle> processes = ProcessHandle.allProcesses()) {
      for (ProcessHandle process : processes.toList()) {
        String command = process.info().commandLine().orElse("");
        boolean ours = process.equals(ProcessHandle.current());
        if (!ours && (command.contains(folder.toString()) || hasOpen(process.pid(), folder))) {
          found.add(process.pid() + " " + command);
        }
      }
    }
    return found;
  }

  private static boolean hasOpen(long pid, Path folder) {
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/" + pid + "/fd"))) {
      for (Path descriptor : descriptors.toList()) {
        if (Files.readSymbolicLink(descriptor).startsWith(folder)) {
          return true;
        }
      }
    } catch (IOException e) {
      // It has ended, or is somebody else's.
    }
    return false;
  }

  static List<String> filesIn(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
