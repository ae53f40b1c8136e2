package berth.host.state;

import berth.rpc.Vitals;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes files that survive a power failure. One thread brings to disk what all callers have
 * written meanwhile, so that many pay for one flush, and no interrupted caller breaks it off for
 * the others. Any thread may call; hold no lock that others need.
 */
public class DurableFiles implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(DurableFiles.class);
  private static final String TEMPORARY = ".new";
  private static final int BUFFER = 64 << 10;

  // A page less the line that comes before the content: records of that length, or a multiple, can
  // be replaced where they stand.
  private static final int CONTENT_BYTES = 4096 - 64;

  // Only for measuring what flushing costs: scripts/bench.sh runs.
  private static final boolean UNFLUSHED = Boolean.getBoolean("berth.unflushed");

  /** Brings a file, or the names in a folder, to disk. */
  interface Flush {
    void force(Path path, StandardOpenOption how) throws IOException;
  }

  /** What a record holds, for those that are too large to be copied. Written twice. */
  public interface Content {
    void writeTo(OutputStream out) throws IOException;
  }

  /**
   * What one caller waits for.
   *
   * @param first what must be on disk before anything is renamed
   */
  private record Commit(
      Map<Path, Path> renames, Set<Path> first, Set<Path> folders, CompletableFuture<Void> done) {
    void fail(IOException e) {
      done.completeExceptionally(e);
    }
  }

  private final Flush flush;
  private final BlockingQueue<Commit> commits = new LinkedBlockingQueue<>();
  private final AtomicLong number = new AtomicLong();
  private volatile boolean closed;

  public DurableFiles(Vitals vitals) {
    this(vitals, DurableFiles::force);
    if (UNFLUSHED) {
      log.warn("berth.unflushed is set: acknowledged writes do not survive a power failure");
    }
  }

  DurableFiles(Vitals vitals, Flush flush) {
    this.flush = flush;
    vitals.start("disk-flush", this::flushNext);
  }

  /**
   * Puts a record in place of the file, whole or not at all; it is on disk when this returns.
   *
   * @throws IOException if it is not; the file is as it was, or already the new one
   */
  public void write(Path file, byte[] content) throws IOException {
    write(Map.of(file, content));
  }

  /** The same for several records at the price of one, as {@link #writeAll}. */
  public void write(Map<Path, byte[]> contents, Path... alsoFlushed) throws IOException {
    Map<Path, Content> all = new LinkedHashMap<>();
    contents.forEach((file, content) -> all.put(file, out -> out.write(content)));
    writeAll(all, alsoFlushed);
  }

  /**
   * Puts several records in place, at the price of one. Each is replaced whole; a failure may leave
   * some of them replaced.
   *
   * @param alsoFlushed files, and folders in which something else was made, that must be on disk
   *     before the records are
   */
  public void writeAll(Map<Path, Content> contents, Path... alsoFlushed) throws IOException {
    Map<Path, Path> renames = new LinkedHashMap<>();
    Set<Path> folders = new LinkedHashSet<>();
    try {
      for (Map.Entry<Path, Content> entry : contents.entrySet()) {
        Path file = entry.getKey();
        Path temporary =
            file.resolveSibling(file.getFileName() + "." + number.incrementAndGet() + TEMPORARY);
        renames.put(temporary, file);
        folders.add(file.getParent());
        writeNew(temporary, entry.getValue());
      }
      commit(renames, Set.of(alsoFlushed), folders);
    } catch (IOException e) {
      for (Path temporary : renames.keySet()) {
        Files.deleteIfExists(temporary);
      }
      throw e;
    }
  }

  /**
   * Puts a record of named values in place of the file, as {@link #write}; on a full disk, where
   * the older one stands. So what was promised can be kept there too. For that it has room to grow.
   *
   * @param alsoFlushed as for {@link #writeAll}
   * @throws IOException if it is not on disk, and the older one is as it was
   */
  public void replace(Path file, byte[] content, Path... alsoFlushed) throws IOException {
    try {
      write(Map.of(file, withRoomToGrow(content)), alsoFlushed);
    } catch (IOException e) {
      try {
        overwrite(file, content);
      } catch (IOException noRoom) {
        e.addSuppressed(noRoom);
        throw e;
      }
    }
  }

  // A full disk has room for what is there already. One page at most is replaced whole, whoever
  // kills this process; after a power failure it may be damaged.
  private static void overwrite(Path file, byte[] content) throws IOException {
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
      int pages = (int) (channel.size() / CONTENT_BYTES);
      ByteBuffer all = ByteBuffer.wrap(RecordFile.encode(padded(content, pages)));
      if (channel.size() != all.limit()) {
        throw new IOException(file + " has " + channel.size() + " bytes, not " + all.limit());
      }
      while (all.hasRemaining()) {
        channel.write(all, all.position());
      }
      channel.force(true);
    }
  }

  /** Named values with as many empty lines as {@link #replace} needs to find on a full disk. */
  public static byte[] withRoomToGrow(byte[] content) {
    return padded(content, 1);
  }

  private static byte[] padded(byte[] content, int leastPages) {
    int pages = Math.max(leastPages, (content.length + CONTENT_BYTES - 1) / CONTENT_BYTES);
    byte[] padded = Arrays.copyOf(content, pages * CONTENT_BYTES);
    Arrays.fill(padded, content.length, padded.length, (byte) '\n');
    return padded;
  }

  /** Whether a file is one that a killed process has not come to rename. */
  public static boolean isUnfinished(Path file) {
    return file.getFileName().toString().endsWith(TEMPORARY);
  }

  /** Returns when what was made, renamed or deleted in these folders is on disk. */
  public void flush(Path... folders) throws IOException {
    commit(Map.of(), Set.of(), Set.of(folders));
  }

  @Override
  public void close() {
    closed = true;
  }

  private void commit(Map<Path, Path> renames, Set<Path> first, Set<Path> folders)
      throws IOException {
    if (closed) {
      throw new IOException("this server is stopping");
    }
    Commit commit = new Commit(renames, first, folders, new CompletableFuture<>());
    commits.add(commit);
    if (closed && commits.remove(commit)) {
      throw new IOException("this server is stopping");
    }
    try {
      // Not interruptible: the answer comes soon, and what was begun should be known.
      commit.done.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof IOException io ? io : new IOException(e.getCause());
    }
  }

  private static void writeNew(Path file, Content content) throws IOException {
    try (FileChannel channel =
            FileChannel.open(
                file,
                // A killed process may have left one of this name.
                Set.of(
                    StandardOpenOption.WRITE,
                    StandardOpenOption.CREATE,
                    StandardOpenOption.TRUNCATE_EXISTING),
                StateFolder.FILE_MODE);
        OutputStream out = new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER)) {
      out.write(RecordFile.header(content));
      content.writeTo(out);
    }
  }

  private boolean flushNext() throws InterruptedException {
    Commit first = commits.poll(1, TimeUnit.SECONDS);
    if (first == null) {
      // What comes from now on sees that, and leaves.
      return !closed || !commits.isEmpty();
    }
    List<Commit> batch = new ArrayList<>(List.of(first));
    commits.drainTo(batch);
    try {
      flush(batch);
    } finally {
      // Whatever happened, nobody waits for ever.
      batch.forEach(commit -> commit.fail(new IOException("the flush to disk failed")));
    }
    return true;
  }

  // All contents before any name, and all names before any folder: the first flush of each kind
  // writes the file system's journal for all of them.
  private void flush(List<Commit> batch) {
    for (Commit commit : batch) {
      attempt(
          commit,
          () -> {
            force(commit.first, StandardOpenOption.READ);
            force(commit.renames.keySet(), StandardOpenOption.WRITE);
          });
    }
    for (Commit commit : batch) {
      attempt(
          commit,
          () -> {
            for (Map.Entry<Path, Path> rename : commit.renames.entrySet()) {
              Files.move(rename.getKey(), rename.getValue(), StandardCopyOption.ATOMIC_MOVE);
            }
          });
    }
    Set<Path> flushed = new LinkedHashSet<>();
    for (Commit commit : batch) {
      attempt(
          commit,
          () -> {
            Set<Path> folders = new LinkedHashSet<>(commit.folders);
            folders.removeAll(flushed);
            force(folders, StandardOpenOption.READ);
            flushed.addAll(folders);
          });
    }
    batch.forEach(commit -> commit.done.complete(null));
  }

  private interface Step {
    void run() throws IOException;
  }

  private static void attempt(Commit commit, Step step) {
    if (!commit.done.isDone()) {
      try {
        step.run();
      } catch (IOException e) {
        commit.fail(e);
      }
    }
  }

  private void force(Set<Path> paths, StandardOpenOption how) throws IOException {
    for (Path path : paths) {
      flush.force(path, how);
    }
  }

  private static void force(Path path, StandardOpenOption how) throws IOException {
    if (!UNFLUSHED) {
      try (FileChannel channel = FileChannel.open(path, how)) {
        channel.force(true);
      }
    }
  }
}
