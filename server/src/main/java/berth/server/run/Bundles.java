package berth.server.run;

import berth.host.state.DurableFiles;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.ByteSize;
import berth.rpc.Reason;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributeView;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The tars that people have uploaded, each under the SHA-256 of its bytes. What is in here has been
 * checked by {@link BundleTar}. The folder belongs to one daemon. Any thread may call.
 */
final class Bundles {
  private static final Logger log = LoggerFactory.getLogger(Bundles.class);
  private static final Pattern DIGEST = Pattern.compile("[0-9a-f]{64}");
  private static final String UNFINISHED = ".new";

  // Times beyond these overflow in one file system or another.
  private static final Instant EARLIEST = Instant.EPOCH;
  private static final Instant LATEST = Instant.parse("2200-01-01T00:00:00Z");

  private static final long LOOK_EVERY = 16 << 20;
  private static final int BUFFER = 1 << 16;
  private static final int USUAL_COUNT = 20_000;

  record Bundle(String digest, long bytes) {}

  /** A bundle that is there. */
  record Kept(String digest, long bytes, Instant lastUse) {}

  /**
   * How large bundles may be, in bytes, and how many.
   *
   * @param packed each as it comes
   * @param unpacked each on the disk of a run
   * @param together all of them, as they came
   * @param count how many there may be, with those on their way
   */
  record Limits(long packed, long unpacked, long together, int count) {
    Limits(long packed, long unpacked, long together) {
      this(packed, unpacked, together, USUAL_COUNT);
    }
  }

  private final Path folder;
  private final Limits limits;
  private final StateDisk disk;
  private final DurableFiles durable;
  // Bytes of the bundles, as of the last look and since; and of the uploads that have not ended.
  private long kept;
  private long arriving;

  /**
   * Makes the folder if it is missing, and deletes what uploads left that a killed daemon was
   * receiving.
   */
  Bundles(Path folder, Limits limits, StateDisk disk, DurableFiles durable) {
    this.folder = folder.toAbsolutePath();
    this.limits = limits;
    this.disk = disk;
    this.durable = durable;
    try {
      StateFolder.create(this.folder);
      try (DirectoryStream<Path> left = Files.newDirectoryStream(this.folder, "*" + UNFINISHED)) {
        for (Path file : left) {
          Files.deleteIfExists(file);
        }
      }
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Whether there is such a bundle. If so, it counts as used now. */
  synchronized boolean has(String digest) {
    Path file = file(digest);
    try {
      if (Files.isRegularFile(file) && Files.size(file) == 0) {
        // No tar is empty: its content was lost.
        RunStore.setAside(file);
        return false;
      }
      Files.setLastModifiedTime(file, FileTime.from(Instant.now()));
      return true;
    } catch (NoSuchFileException e) {
      return false;
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Begins to store a bundle, which may be there already, or on its way by another upload. */
  Upload begin(String digest) {
    Path target = file(digest);
    checkRoom();
    return new Upload(digest, target);
  }

  private void checkRoom() {
    disk.check("an upload");
    synchronized (this) {
      kept = 0;
      int count = 0;
      try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
        for (Path file : files) {
          count++;
          kept += file.getFileName().toString().endsWith(UNFINISHED) ? 0 : size(file);
        }
      } catch (IOException | DirectoryIteratorException e) {
        throw unusable(e);
      }
      if (count >= limits.count) {
        throw new BerthException(
            Reason.EXHAUSTED,
            "upload refused: "
                + count
                + " bundles on this server, the maximum; unused ones are deleted");
      }
      take(0);
    }
  }

  private static long size(Path file) throws IOException {
    try {
      return Files.size(file);
    } catch (NoSuchFileException e) {
      // Just set aside.
      return 0;
    }
  }

  // One count for all uploads: each of many may have room by itself.
  private synchronized void take(long bytes) {
    if (kept + arriving > limits.together - bytes) {
      throw new BerthException(
          Reason.EXHAUSTED,
          "upload refused: the bundles on this server have "
              + ByteSize.text(kept + arriving)
              + " and would have more than the "
              + ByteSize.text(limits.together)
              + " that are allowed (--keep-bytes); unused ones are deleted");
    }
    arriving += bytes;
  }

  /**
   * Puts the files of a bundle into {@code into}, which is made if it is missing. Nobody else may
   * change it meanwhile. What a failed call leaves there is the caller's to delete.
   *
   * @throws BerthException NOT_FOUND if there is no such bundle; UNAVAILABLE if the files cannot be
   *     written, or there is too little room for them
   */
  void unpack(String digest, Path into) {
    MessageDigest sha256 = sha256();
    try (InputStream packed = new DigestInputStream(open(digest), sha256)) {
      Room room = new Room();
      Unpacking unpacking = new Unpacking(into.toAbsolutePath(), room);
      new BundleTar(packed, limits.unpacked).read(unpacking);
      unpacking.finish();
      packed.transferTo(OutputStream.nullOutputStream());
    } catch (IOException | BerthException e) {
      if (damaged(digest)) {
        throw lost(digest, e);
      }
      throw e instanceof BerthException refused
          ? refused
          : new BerthException(
              Reason.UNAVAILABLE,
              "cannot unpack the bundle " + digest + " into " + into + ": " + e,
              e);
    }
    if (!HexFormat.of().formatHex(sha256.digest()).equals(digest)) {
      throw lost(digest, null);
    }
  }

  private boolean damaged(String digest) {
    MessageDigest sha256 = sha256();
    try (InputStream packed = new DigestInputStream(Files.newInputStream(file(digest)), sha256)) {
      packed.transferTo(OutputStream.nullOutputStream());
      return !HexFormat.of().formatHex(sha256.digest()).equals(digest);
    } catch (IOException e) {
      return false;
    }
  }

  private BerthException lost(String digest, Exception cause) {
    RunStore.setAside(file(digest));
    return new BerthException(
        Reason.CONFLICT,
        "the bundle " + digest + " is damaged on this server's disk; upload it again",
        cause);
  }

  /** How many are kept if there is no other reason to delete one: half of what there may be. */
  int worthKeeping() {
    return limits.count / 2;
  }

  /** The bundles that are there. */
  synchronized List<Kept> all() {
    List<Kept> all = new ArrayList<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        String digest = file.getFileName().toString();
        if (DIGEST.matcher(digest).matches()) {
          all.add(new Kept(digest, Files.size(file), Files.getLastModifiedTime(file).toInstant()));
        }
      }
    } catch (IOException e) {
      throw unusable(e);
    }
    return all;
  }

  /** Deletes a bundle, unless it was stored, asked for or unpacked after {@code lastUse}. */
  synchronized void delete(String digest, Instant lastUse) {
    Path file = file(digest);
    try {
      if (!Files.getLastModifiedTime(file).toInstant().isAfter(lastUse)) {
        long size = Files.size(file);
        Files.delete(file);
        kept -= size;
      }
    } catch (NoSuchFileException e) {
      // As wanted.
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private synchronized InputStream open(String digest) {
    if (!has(digest)) {
      throw new BerthException(
          Reason.NOT_FOUND, "there is no bundle " + digest + " on this server; upload it first");
    }
    try {
      return new FileInputStream(file(digest).toFile());
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private Path file(String digest) {
    if (!DIGEST.matcher(digest).matches()) {
      throw new BerthException(
          Reason.INVALID,
          "a bundle is named by the 64 lower-case hexadecimal digits of its SHA-256; given: "
              + digest.length()
              + " characters"
              + (digest.matches("[\\w:.-]{1,100}") ? ", '" + digest + "'" : ""));
    }
    return folder.resolve(digest);
  }

  private BerthException unusable(Exception e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the folder of bundles " + folder + ": " + e, e);
  }

  /** A bundle on its way. For one thread at a time. */
  final class Upload implements AutoCloseable {
    private final String digest;
    private final Path target;
    private final Path temporary;
    private final FileChannel channel;
    private final MessageDigest sha256 = sha256();
    private long bytes;
    private long looked;
    private boolean counted = true;

    private Upload(String digest, Path target) {
      this.digest = digest;
      this.target = target;
      try {
        temporary = Files.createTempFile(folder, digest, UNFINISHED, StateFolder.FILE_MODE);
        channel = FileChannel.open(temporary, StandardOpenOption.WRITE);
      } catch (IOException e) {
        throw unusable(e);
      }
    }

    /**
     * Takes the next bytes.
     *
     * @throws BerthException EXHAUSTED if these are more than a bundle may have
     */
    void write(ByteBuffer data) {
      long next = bytes + data.remaining();
      if (next > limits.packed) {
        throw new BerthException(
            Reason.EXHAUSTED,
            "the bundle has more than the "
                + ByteSize.text(limits.packed)
                + " that this server allows");
      }
      take(data.remaining());
      bytes = next;
      if (bytes - looked > LOOK_EVERY) {
        looked = bytes;
        checkRoom();
      }
      sha256.update(data.duplicate());
      try {
        while (data.hasRemaining()) {
          channel.write(data);
        }
      } catch (IOException e) {
        throw unusable(e);
      }
    }

    /**
     * Checks all that came, and stores it.
     *
     * @throws BerthException INVALID or EXHAUSTED if it is not what a bundle must be
     */
    Bundle finish() {
      String found = HexFormat.of().formatHex(sha256.digest());
      if (!found.equals(digest)) {
        throw new BerthException(
            Reason.INVALID,
            "the bundle was announced as " + digest + ", its " + bytes + " bytes are " + found);
      }
      try {
        // A name that says what the content is must not outlive the content in a power failure.
        channel.force(true);
        channel.close();
        try (InputStream packed = Files.newInputStream(temporary)) {
          new BundleTar(packed, limits.unpacked).read((entry, content) -> {});
        }
        synchronized (Bundles.this) {
          Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
          kept += bytes;
          arriving -= bytes;
          counted = false;
        }
        durable.flush(folder);
      } catch (IOException e) {
        throw unusable(e);
      }
      return new Bundle(digest, bytes);
    }

    /** Ends the upload; if it is not finished, nothing of it stays. */
    @Override
    public void close() {
      try {
        channel.close();
        Files.deleteIfExists(temporary);
      } catch (IOException e) {
        log.warn("cannot delete {}: {}", temporary, e.toString());
      }
      synchronized (Bundles.this) {
        if (counted) {
          counted = false;
          arriving -= bytes;
        }
      }
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** Looks at the disk again and again while something is written. For one thread. */
  private final class Room {
    // The least that a file or folder takes on most disks.
    private static final int BLOCK = 4096;

    private long untilLook;

    Room() {
      look();
    }

    void entry() {
      take(BLOCK);
    }

    void take(long bytes) {
      untilLook -= bytes;
      if (untilLook < 0) {
        look();
      }
    }

    private void look() {
      disk.check("the unpacking of a bundle");
      untilLook = LOOK_EVERY;
    }
  }

  /** Writes entries below a folder. Links come last, so that nothing is written through one. */
  private static final class Unpacking implements BundleTar.Receiver {
    private static final int IMPLIED_FOLDER = 0755;

    private final Path into;
    private final Room room;
    private final Set<Path> folders = new HashSet<>();
    private final List<BundleTar.Entry> folderEntries = new ArrayList<>();
    private final List<BundleTar.Entry> links = new ArrayList<>();

    Unpacking(Path into, Room room) throws IOException {
      this.into = into;
      this.room = room;
      Files.createDirectories(into);
      folders.add(into);
    }

    @Override
    public void receive(BundleTar.Entry entry, InputStream content) throws IOException {
      Path path = into.resolve(entry.path());
      room.entry();
      switch (entry.kind()) {
        case FOLDER -> {
          makeFolder(path);
          folderEntries.add(entry);
        }
        case LINK -> links.add(entry);
        case FILE -> {
          makeFolder(path.getParent());
          // Of two entries with the same name the later one counts.
          Files.deleteIfExists(path);
          try (OutputStream out = Files.newOutputStream(path, StandardOpenOption.CREATE_NEW)) {
            copy(content, out);
          }
          // Without the permission to read it, a server that is not root could not give it back.
          setAttributes(path, entry.mode() | 0400, entry.modified());
        }
      }
    }

    private void copy(InputStream content, OutputStream out) throws IOException {
      byte[] buffer = new byte[BUFFER];
      for (int read = content.read(buffer); read >= 0; read = content.read(buffer)) {
        room.take(read);
        out.write(buffer, 0, read);
      }
    }

    void finish() throws IOException {
      for (BundleTar.Entry link : links) {
        Path path = into.resolve(link.path());
        makeFolder(path.getParent());
        Files.deleteIfExists(path);
        Files.createSymbolicLink(path, Path.of(link.target()));
      }
      // Now that nothing changes any more in them.
      for (BundleTar.Entry folder : folderEntries) {
        setAttributes(into.resolve(folder.path()), folder.mode() | 0700, folder.modified());
      }
    }

    private void makeFolder(Path path) throws IOException {
      if (!folders.add(path)) {
        return;
      }
      makeFolder(path.getParent());
      if (!Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
        Files.createDirectory(path);
        // Whatever the umask is: the user of an image may be anybody.
        Files.setPosixFilePermissions(path, Permissions.of(IMPLIED_FOLDER));
      } else if (!Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS)
          .isDirectory()) {
        throw new NotDirectoryException(path + " is in the way of a folder");
      }
    }

    private static void setAttributes(Path path, int mode, FileTime modified) throws IOException {
      PosixFileAttributeView view =
          Files.getFileAttributeView(path, PosixFileAttributeView.class, LinkOption.NOFOLLOW_LINKS);
      Instant time = modified.toInstant();
      if (!time.isBefore(EARLIEST) && time.isBefore(LATEST)) {
        view.setTimes(modified, null, null);
      }
      view.setPermissions(Permissions.of(mode));
    }
  }
}
