package berth.e2e.soak;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.OptionalInt;

/**
 * What a program of a soak wrote down of itself; see {@code soaked.py}.
 *
 * @param run the run that it was
 * @param gpus the indices of its GPUs on its server
 * @param name of its cluster or run
 * @param task of its cluster, or {@code -}
 * @param lines how many it has printed for certain; {@link #BATCH} more if it ended right then
 * @param end its exit code; empty if it was killed, or still runs
 */
record Journal(
    String run,
    int pid,
    String server,
    List<String> gpus,
    String name,
    String task,
    int lines,
    OptionalInt end) {
  /** So many lines are printed at once. */
  static final int BATCH = 10;

  static Journal parse(String run, List<String> text) {
    String[] begin = text.get(0).split(" ");
    int lines = 0;
    OptionalInt end = OptionalInt.empty();
    for (String line : text.subList(1, text.size())) {
      if (line.startsWith("end ")) {
        end = OptionalInt.of(Integer.parseInt(line.substring("end ".length())));
      } else if (!line.startsWith("begin ")) {
        lines = Integer.parseInt(line);
      }
    }
    return new Journal(
        run,
        Integer.parseInt(begin[1]),
        begin[2],
        begin[3].equals("-") ? List.of() : List.of(begin[3].split(",")),
        begin[4],
        begin[5],
        lines,
        end);
  }

  /** Whether its process is there, and is no other of the same number. */
  boolean lives() {
    try {
      // That of a process that is dead and not yet buried is empty.
      return Files.readString(Path.of("/proc/" + pid + "/cmdline")).contains("\0" + name + "\0");
    } catch (IOException e) {
      return false;
    }
  }

  /** Whether so many lines are all that it printed. */
  boolean printed(int count) {
    boolean maybeMore = end.isEmpty() || end.getAsInt() > 128;
    return count == lines || maybeMore && count == lines + BATCH;
  }

  /** Whether it can have printed so many lines. */
  boolean mayHavePrinted(int count) {
    return count <= lines + BATCH;
  }
}
