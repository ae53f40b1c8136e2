package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A Python process that holds locks through the real fasteners package, until it is closed. */
final class Fasteners implements AutoCloseable {
  private static final Path SCRIPT =
      Path.of(System.getProperty("berth.root"), "server/src/test/python/fasteners_locks.py");

  private final Process process;

  private Fasteners(Process process) {
    this.process = process;
  }

  static Fasteners hold(Path... files) {
    Process process = start("hold", files);
    assertThat(firstLine(process)).isEqualTo("held");
    return new Fasteners(process);
  }

  static boolean isFree(Path file) {
    Process process = start("try", file);
    boolean free = firstLine(process).equals("free");
    // Until its end it holds the lock that it found free.
    await(process);
    return free;
  }

  long pid() {
    return process.pid();
  }

  /** Lets go in order. */
  @Override
  public void close() {
    try {
      process.getOutputStream().close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    await(process);
  }

  void kill() {
    process.destroyForcibly();
  }

  private static Process start(String action, Path... files) {
    List<String> command = new ArrayList<>(List.of("/usr/bin/python3", SCRIPT.toString(), action));
    for (Path file : files) {
      command.add(file.toString());
    }
    try {
      return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void await(Process process) {
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static String firstLine(Process process) {
    BufferedReader reader = process.inputReader();
    try {
      return String.valueOf(reader.readLine());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
