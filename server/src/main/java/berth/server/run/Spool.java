package berth.server.run;

import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The output of one run, on disk. Any thread may call.
 *
 * <p>The program writes into two named pipes, and a {@code cat} for each writes on into a file: so
 * output needs neither the container engine nor this process, and nothing is lost or stalls when
 * either is killed. This class reads what the files have, and notes in which order it saw them
 * grow: that order, once noted, is the order of the run's output for every reader.
 */
final class Spool implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Spool.class);

  // The limit of a stream is the kernel's limit of a file; what comes after it is counted.
  private static final String SCRIPT =
      """
      cd "$1" || exit 1
      # Whoever waits for the word may be killed.
      trap '' PIPE
      # By it they are found again, and ended; a full disk may not take it.
      echo $$ >spool/pid || exit 1
      [ -p io/stderr ] || mkfifo -m 666 io/stdout io/stderr || exit 1
      for stream in stdout stderr; do
        (
          trap '' 25
          ulimit -f "$2"
          cat >>spool/$stream || wc -c >spool/$stream.dropped
        ) <io/$stream >/dev/null 2>&1 &
      done
      echo ready
      exec >/dev/null
      wait
      : >spool/complete
      """;

  private static final Pattern PID = Pattern.compile("[0-9]{1,10}");
  private static final String ORDER = "order";
  private static final int ULIMIT_BLOCK = 512;
  private static final int ENTRY = 2 * Long.BYTES;

  /** A piece of output, and where it is in all of it. */
  record Chunk(OutputStreamKind stream, long offset, ByteBuffer data) {}

  // A stretch of one stream: from `start` of all output, which is `streamStart` of the stream.
  private record Stretch(OutputStreamKind stream, long start, long streamStart) {}

  private final RunFolder folder;
  private final SpoolWatch watch;
  private final Map<OutputStreamKind, FileChannel> files = new EnumMap<>(OutputStreamKind.class);
  private final Map<OutputStreamKind, Long> sizes = new EnumMap<>(OutputStreamKind.class);
  private FileChannel order;
  private final List<Runnable> listeners = new CopyOnWriteArrayList<>();
  private Optional<Stretch> last = Optional.empty();
  private long entries;
  private boolean complete;
  private boolean unordered;
  private boolean closed;
  private Runnable unwatch = () -> {};

  /** Opens the output of a run, new or old. */
  Spool(RunFolder folder, SpoolWatch watch) {
    this.folder = folder;
    this.watch = watch;
    try {
      for (OutputStreamKind stream : OutputStreamKind.values()) {
        files.put(stream, open(stream.fileName()));
        sizes.put(stream, 0L);
      }
      order = open(ORDER);
      recoverOrder();
    } catch (IOException e) {
      closeFiles();
      throw unusable(e);
    }
  }

  private FileChannel open(String name) throws IOException {
    return FileChannel.open(
        file(name),
        Set.of(StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE),
        StateFolder.FILE_MODE);
  }

  /** The files that hold what has been printed, and their folder. */
  synchronized Path[] written() {
    List<Path> written = new ArrayList<>();
    for (OutputStreamKind stream : OutputStreamKind.values()) {
      if (sizes.get(stream) > 0) {
        written.add(file(stream.fileName()));
      }
    }
    if (!written.isEmpty()) {
      written.add(file(ORDER));
      written.add(folder.spool());
    }
    return written.toArray(Path[]::new);
  }

  /** Begins to watch for growth. */
  void follow() {
    unwatch = watch.watch(folder.spool(), this::refresh);
    refresh();
  }

  /**
   * Makes the pipes and starts what reads them, unless that runs already. Takes a while.
   *
   * @param limit bytes of each stream that are kept
   */
  void start(long limit) {
    if (complete() || readersAlive()) {
      return;
    }
    try {
      Process process =
          new ProcessBuilder(
                  "setsid",
                  "sh",
                  "-c",
                  SCRIPT,
                  "berth-spool",
                  folder.path().toString(),
                  Long.toString(Math.max(1, limit / ULIMIT_BLOCK)))
              .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      try (BufferedReader out = process.inputReader()) {
        if (!"ready".equals(out.readLine())) {
          throw new IOException("the readers of the output did not start");
        }
      }
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Ends the readers of pipes into which nobody will write any more. */
  void abandon() {
    if (complete() || !readersAlive()) {
      return;
    }
    try {
      // To open a pipe and close it is the end of what its reader waits for. One of the two may
      // have no reader any more, and is then waited for in vain.
      new ProcessBuilder(
              "timeout",
              "2",
              "sh",
              "-c",
              "cd \"$1\" || exit; : >stdout & : >stderr & wait",
              "sh",
              folder.io().toString())
          .redirectErrorStream(true)
          .redirectOutput(ProcessBuilder.Redirect.DISCARD)
          .start()
          .waitFor(3, TimeUnit.SECONDS);
    } catch (IOException e) {
      log.warn("cannot end the readers of {}: {}", folder.io(), e.getMessage());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Bytes of output so far. */
  synchronized long total() {
    return sizes.get(OutputStreamKind.STDOUT) + sizes.get(OutputStreamKind.STDERR);
  }

  /** Bytes of a stream so far. */
  synchronized long size(OutputStreamKind stream) {
    return sizes.get(stream);
  }

  /** Whether more came of a stream than is kept. */
  boolean dropped(OutputStreamKind stream) {
    return Files.exists(file(stream.fileName() + ".dropped"));
  }

  /** Whether all that will ever come has come. */
  boolean complete() {
    return complete || Files.exists(file("complete"));
  }

  /**
   * Runs {@code listener} whenever there is more, or it is complete. Run the result to end that.
   */
  Runnable listen(Runnable listener) {
    listeners.add(listener);
    return () -> listeners.remove(listener);
  }

  /** Waits until all has come; false if the time was not enough. */
  boolean awaitComplete(Duration atMost) throws InterruptedException {
    long deadline = System.nanoTime() + atMost.toNanos();
    synchronized (this) {
      while (!complete) {
        if (Files.exists(file("complete"))) {
          break;
        }
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          return false;
        }
        // Told by the watch; looked at now and then in case the kernel dropped an event.
        wait(Math.min(Math.max(1, left / 1_000_000), 100));
      }
    }
    refresh();
    return true;
  }

  /**
   * The output from {@code offset} on, of one stream, at most {@code most} bytes; empty if none.
   */
  Optional<Chunk> read(long offset, int most) {
    Stretch stretch;
    long end;
    synchronized (this) {
      if (closed || offset >= total()) {
        return Optional.empty();
      }
      long entry = entryOf(offset);
      stretch = entry == entries - 1 ? last.orElseThrow() : entry(entry);
      end = entry == entries - 1 ? total() : entry(entry + 1).start;
    }
    ByteBuffer data = ByteBuffer.allocate((int) Math.min(most, end - offset));
    long position = stretch.streamStart + (offset - stretch.start);
    try {
      FileChannel file = files.get(stretch.stream);
      while (data.hasRemaining() && file.read(data, position + data.position()) > 0) {
        // Until it is full.
      }
    } catch (IOException e) {
      throw unusable(e);
    }
    return Optional.of(new Chunk(stretch.stream, offset, data.flip()));
  }

  /** Notes what has come since the last look. What cannot be noted is left for the next one. */
  void refresh() {
    boolean news = false;
    synchronized (this) {
      if (closed) {
        return;
      }
      // Whether it was complete is asked first: what comes after the answer was there before.
      boolean all = !complete && Files.exists(file("complete"));
      try {
        OutputStreamKind first = last.map(Stretch::stream).orElse(OutputStreamKind.STDOUT);
        news |= grow(first);
        news |= grow(first.other());
        unordered = false;
      } catch (IOException e) {
        if (!unordered) {
          log.warn("cannot note the output in {}: {}", folder.spool(), e.getMessage());
        }
        unordered = true;
      }
      if (all) {
        complete = true;
        news = true;
      }
      notifyAll();
    }
    if (news || dropped(OutputStreamKind.STDOUT) || dropped(OutputStreamKind.STDERR)) {
      listeners.forEach(Runnable::run);
    }
  }

  @Override
  public void close() {
    unwatch.run();
    synchronized (this) {
      closed = true;
    }
    listeners.clear();
    closeFiles();
  }

  private void closeFiles() {
    try {
      for (FileChannel file : files.values()) {
        file.close();
      }
      if (order != null) {
        order.close();
      }
    } catch (IOException e) {
      log.warn("cannot close the output of {}: {}", folder.path(), e.getMessage());
    }
  }

  // The order is written before anybody is told, so that nobody ever sees another.
  private boolean grow(OutputStreamKind stream) throws IOException {
    long before = sizes.get(stream);
    long now = files.get(stream).size();
    if (now <= before) {
      return false;
    }
    if (last.map(stretch -> stretch.stream != stream).orElse(true)) {
      Stretch next = new Stretch(stream, total(), before);
      ByteBuffer entry = ByteBuffer.allocate(ENTRY);
      entry.putLong(next.start).putLong(next.streamStart << 1 | stream.ordinal()).flip();
      order.write(entry, entries * ENTRY);
      entries++;
      last = Optional.of(next);
    }
    sizes.put(stream, now);
    return true;
  }

  // The last stretch has no end in the record: it may have grown until the other stream did.
  private void recoverOrder() throws IOException {
    entries = order.size() / ENTRY;
    if (order.size() % ENTRY != 0) {
      log.warn("{} ends within an entry, which is ignored", file(ORDER));
    } else if (entries == 0
        && !isEmpty(OutputStreamKind.STDOUT)
        && !isEmpty(OutputStreamKind.STDERR)) {
      log.warn("{} is empty: the order of both streams is lost", file(ORDER));
    }
    if (entries > 0 && !isOrder()) {
      // What was printed is all there; only in which order is lost.
      order.close();
      RunStore.setAside(file(ORDER));
      order = open(ORDER);
      entries = 0;
    }
    if (entries > 0) {
      Stretch newest = entry(entries - 1);
      last = Optional.of(newest);
      sizes.put(newest.stream.other(), newest.start - newest.streamStart);
      sizes.put(newest.stream, files.get(newest.stream).size());
    }
    // What came since, or was noted in what is lost.
    grow(OutputStreamKind.STDOUT);
    grow(OutputStreamKind.STDERR);
  }

  private boolean isEmpty(OutputStreamKind stream) throws IOException {
    return files.get(stream).size() == 0;
  }

  // Each stretch goes on where the last one of its stream ended.
  private boolean isOrder() throws IOException {
    long[] ends = new long[OutputStreamKind.values().length];
    Stretch before = null;
    for (long i = 0; i < entries; i++) {
      Stretch next = entry(i);
      if (before == null ? next.start != 0 : next.start <= before.start) {
        return false;
      }
      if (before != null) {
        ends[before.stream.ordinal()] = before.streamStart + next.start - before.start;
      }
      if (next.streamStart != ends[next.stream.ordinal()]
          || (before != null && before.stream == next.stream)) {
        return false;
      }
      before = next;
    }
    for (OutputStreamKind stream : OutputStreamKind.values()) {
      if (files.get(stream).size() < ends[stream.ordinal()]) {
        log.error("{} is shorter than what was read of it before", file(stream.fileName()));
        return false;
      }
    }
    return before == null || files.get(before.stream).size() >= before.streamStart;
  }

  private Stretch entry(long index) {
    ByteBuffer entry = ByteBuffer.allocate(ENTRY);
    try {
      order.read(entry, index * ENTRY);
    } catch (IOException e) {
      throw unusable(e);
    }
    entry.flip();
    long start = entry.getLong();
    long rest = entry.getLong();
    return new Stretch(OutputStreamKind.values()[(int) (rest & 1)], start, rest >>> 1);
  }

  private long entryOf(long offset) {
    if (last.orElseThrow().start <= offset) {
      return entries - 1;
    }
    long low = 0;
    long high = entries - 1;
    while (low < high) {
      long middle = (low + high + 1) >>> 1;
      if (entry(middle).start <= offset) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  private boolean readersAlive() {
    try {
      String pid = Files.readString(file("pid")).trim();
      if (!PID.matcher(pid).matches()) {
        log.error("{} is damaged: it names no process", file("pid"));
        return false;
      }
      String command = Files.readString(Path.of("/proc", pid, "cmdline"));
      return command.contains(folder.path().toString());
    } catch (CharacterCodingException e) {
      log.error("{} is damaged: it is no text", file("pid"));
      return false;
    } catch (IOException e) {
      return false;
    }
  }

  private Path file(String name) {
    return folder.spool().resolve(name);
  }

  private BerthException unusable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE,
        "cannot use the folder for output " + folder.spool() + ": " + e.getMessage(),
        new UncheckedIOException(e));
  }
}
