package berth.host.lock;

import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.StringArray;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Replaces this process by a program, as a shell's {@code exec} does. */
public final class ReplacedProcess {
  private ReplacedProcess() {}

  /**
   * Becomes {@code program}; returns only if that fails, and has said so on the standard error.
   *
   * @param words its arguments, with its name first
   */
  public static void become(Path program, List<String> words, Map<String, String> environment) {
    System.out.flush();
    System.err.flush();
    closeOwnFiles();
    // The JVM blocks a signal in its threads that the program wants to receive.
    Memory none = new Memory(128);
    none.clear();
    LibC.INSTANCE.pthread_sigmask(LibC.SIG_SETMASK, none, null);
    List<String> variables = new ArrayList<>();
    environment.forEach((name, value) -> variables.add(name + "=" + value));
    try {
      LibC.INSTANCE.execve(
          program.toString(),
          new StringArray(words.toArray(String[]::new)),
          new StringArray(variables.toArray(String[]::new)));
    } catch (LastErrorException e) {
      System.err.println("berth: cannot execute " + program + ": " + e.getMessage());
    }
  }

  // The program inherits what this process inherited, such as the pipes of a shell, but not what
  // the JVM opened for itself and left open for children.
  private static void closeOwnFiles() {
    List<String> own =
        List.of(
            System.getProperty("java.home"),
            System.getProperty("berth.home", "/nowhere"),
            "/dev/random",
            "/dev/urandom",
            "socket:",
            "anon_inode:");
    try (Stream<Path> descriptors = Files.list(Path.of("/proc/self/fd"))) {
      for (Path descriptor : descriptors.toList()) {
        int fd = Integer.parseInt(descriptor.getFileName().toString());
        if (fd > 2 && Files.isSymbolicLink(descriptor)) {
          String target = Files.readSymbolicLink(descriptor).toString();
          if (own.stream().anyMatch(target::startsWith)) {
            LibC.INSTANCE.fcntl(fd, LibC.F_SETFD, LibC.FD_CLOEXEC);
          }
        }
      }
    } catch (IOException | LastErrorException e) {
      // Then the program has a few more files open than it needs.
    }
  }
}
