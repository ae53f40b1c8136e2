package berth.server.cluster;

import berth.host.lock.KernelFiles;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Consumer;

/**
 * A process that supervises a cluster, whoever started it.
 *
 * @param boot the boot of the machine in which it started
 * @param started its start in the kernel's ticks since then, which tells it from a later process of
 *     the same id. Not as a time of the day: that is another one after the clock was set
 */
record SupervisorProcess(String boot, int pid, long started) {
  // The end of its input, which is that of this process too, ends it. So there is none that nobody
  // has a record of, whenever this process is killed.
  private static final String GATE = "read -r go && exec \"$@\" </dev/null";

  /**
   * Starts a process in a session of its own, so that no terminal's Ctrl-C reaches it.
   *
   * @param command what it becomes
   * @param environment all variables that it gets
   * @param log where to append what it prints
   * @param noted called before it goes on; if that fails, the process ends
   * @throws IOException if the process cannot be started
   */
  static void start(
      List<String> command,
      Map<String, String> environment,
      Path log,
      Consumer<SupervisorProcess> noted)
      throws IOException {
    List<String> words = new ArrayList<>(List.of("setsid", "sh", "-c", GATE, "sh"));
    words.addAll(command);
    ProcessBuilder builder = new ProcessBuilder(words);
    builder.environment().clear();
    builder.environment().putAll(environment);
    builder.directory(log.getParent().toFile());
    builder
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
    Process child = builder.start();
    OutputStream gate = child.getOutputStream();
    try {
      int pid = (int) child.pid();
      OptionalLong started = KernelFiles.startOf(pid);
      if (started.isEmpty()) {
        throw new IOException("it ended at once");
      }
      noted.accept(new SupervisorProcess(KernelFiles.bootId(), pid, started.getAsLong()));
      try {
        gate.write("go\n".getBytes(StandardCharsets.UTF_8));
        gate.flush();
      } catch (IOException e) {
        // Somebody has killed it, which is found out in the usual way.
      }
    } finally {
      close(gate);
    }
  }

  private static void close(OutputStream gate) {
    try {
      gate.close();
    } catch (IOException e) {
      // It is closed all the same.
    }
  }

  /** Whether this very process still runs. */
  boolean alive() {
    return boot.equals(KernelFiles.bootId())
        && KernelFiles.startOf(pid).equals(OptionalLong.of(started));
  }
}
