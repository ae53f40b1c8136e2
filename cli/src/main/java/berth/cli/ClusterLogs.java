package berth.cli;

import berth.client.cluster.ClusterSpec;
import berth.client.cluster.TaskName;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.FileFailure;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * The folder in which the output of a cluster is kept: a file for each task, both streams as they
 * came, byte for byte, beside the addresses of all. A disk that is full stops the logs, not the
 * cluster. Not for several threads at once.
 */
final class ClusterLogs implements AutoCloseable {
  static final Path USUAL = Path.of("berth-logs");

  // A process may have about a thousand files open, and connections count too.
  private static final int MOST_OPEN = 200;

  private final Path folder;
  private final Consumer<String> notes;
  private final Set<TaskName> begun = new HashSet<>();
  private final Map<TaskName, OutputStream> open = new LinkedHashMap<>(16, 0.75f, true);
  private boolean failed;

  private ClusterLogs(Path folder, Consumer<String> notes) {
    this.folder = folder;
    this.notes = notes;
  }

  /**
   * Makes the folder, unless it is there.
   *
   * @param notes is told when nothing can be written any more
   * @throws BerthException if it cannot be made
   */
  static ClusterLogs in(Path folder, Consumer<String> notes) {
    try {
      Files.createDirectories(folder);
      if (!Files.isWritable(folder)) {
        throw new AccessDeniedException(folder.toString());
      }
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID,
          "cannot keep logs in "
              + folder
              + ": "
              + FileFailure.why(e)
              + "; choose another folder with --log-dir DIR, or use --no-logs",
          e);
    }
    return new ClusterLogs(folder, notes);
  }

  /** A folder below {@code berth-logs} that nobody has yet. */
  static Path usual(Path parent, String cluster, LocalDateTime now) {
    String name = cluster + "-" + DateTimeFormatter.ofPattern("yyyyMMdd-HHmmss").format(now);
    Path folder = parent.resolve(name);
    for (int i = 2; Files.exists(folder); i++) {
      folder = parent.resolve(name + "-" + i);
    }
    return folder;
  }

  Path folder() {
    return folder;
  }

  void spec(ClusterSpec spec) {
    writing(
        () -> {
          Files.writeString(folder.resolve("cluster.json"), spec.json() + "\n");
          Files.writeString(folder.resolve("cluster.csv"), spec.csv());
        });
  }

  void output(TaskName task, byte[] data) {
    writing(() -> file(task).write(data));
  }

  private OutputStream file(TaskName task) throws IOException {
    OutputStream file = open.get(task);
    if (file == null) {
      if (open.size() == MOST_OPEN) {
        Iterator<OutputStream> oldest = open.values().iterator();
        oldest.next().close();
        oldest.remove();
      }
      OpenOption how =
          begun.add(task) ? StandardOpenOption.TRUNCATE_EXISTING : StandardOpenOption.APPEND;
      file =
          Files.newOutputStream(
              folder.resolve(task.type() + "-" + task.index() + ".log"),
              StandardOpenOption.CREATE,
              StandardOpenOption.WRITE,
              how);
      open.put(task, file);
    }
    return file;
  }

  private interface Writing {
    void write() throws IOException;
  }

  private void writing(Writing step) {
    if (failed) {
      return;
    }
    try {
      step.write();
    } catch (IOException e) {
      failed = true;
      notes.accept("no more logs: cannot write in " + folder + ": " + FileFailure.why(e));
    }
  }

  /** Leaves no folder behind in which nothing is. */
  @Override
  public void close() {
    try {
      for (OutputStream file : open.values()) {
        file.close();
      }
      open.clear();
      deleteIfEmpty(folder);
      if (USUAL.equals(folder.getParent())) {
        deleteIfEmpty(USUAL);
      }
    } catch (IOException e) {
      notes.accept("cannot finish the logs in " + folder + ": " + FileFailure.why(e));
    }
  }

  private static void deleteIfEmpty(Path folder) throws IOException {
    if (!Files.isDirectory(folder)) {
      return;
    }
    boolean empty;
    try (var files = Files.list(folder)) {
      empty = files.findAny().isEmpty();
    }
    if (empty) {
      Files.delete(folder);
    }
  }
}
