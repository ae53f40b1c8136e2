package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFileAttributeView;
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

  record Bundle(String digest, long bytes) {}

  private final Path folder;
  private final long maxPackedBytes;
  private final long maxUnpackedBytes;

  /**
   * Makes the folder if it is missing, and deletes what uploads left that a killed daemon was
   * receiving.
   */
  Bundles(Path folder, long maxPackedBytes, long maxUnpackedBytes) {
    this.folder = folder.toAbsolutePath();
    this.maxPackedBytes = maxPackedBytes;
    this.maxUnpackedBytes = maxUnpackedBytes;
    try {
      Files.createDirectories(this.folder);
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
    return new Upload(digest, file(digest));
  }

  /**
   * Puts the files of a bundle into {@code into}, which is made if it is missing. Nobody else may
   * change it meanwhile. What a failed call leaves there is the caller's to delete.
   *
   * @throws BerthException NOT_FOUND if there is no such bundle; UNAVAILABLE if the files cannot be
   *     written
   */
  void unpack(String digest, Path into) {
    try (InputStream packed = open(digest)) {
      Unpacking unpacking = new Unpacking(into.toAbsolutePath());
      new BundleTar(packed, maxUnpackedBytes).read(unpacking);
      unpacking.finish();
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot unpack the bundle " + digest + " into " + into + ": " + e, e);
    }
  }

  /** Deletes the bundles that were last stored, asked for or unpacked before {@code time}. */
  synchronized void deleteUnusedSince(Instant time) {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        if (DIGEST.matcher(file.getFileName().toString()).matches()
            && Files.getLastModifiedTime(file).toInstant().isBefore(time)) {
          Files.deleteIfExists(file);
        }
      }
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
      return Files.newInputStream(file(digest));
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

  private BerthException unusable(IOException e) {
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

    private Upload(String digest, Path target) {
      this.digest = digest;
      this.target = target;
      try {
        temporary = Files.createTempFile(folder, digest, UNFINISHED);
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
      bytes += data.remaining();
      if (bytes > maxPackedBytes) {
        throw new BerthException(
            Reason.EXHAUSTED,
            "the bundle has " + bytes + " bytes or more, this server allows " + maxPackedBytes);
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
          new BundleTar(packed, maxUnpackedBytes).read((entry, content) -> {});
        }
        Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
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
    }

    private static MessageDigest sha256() {
      try {
        return MessageDigest.getInstance("SHA-256");
      } catch (NoSuchAlgorithmException e) {
        throw new IllegalStateException("every Java has SHA-256", e);
      }
    }
  }

  /** Writes entries below a folder. Links come last, so that nothing is written through one. */
  private static final class Unpacking implements BundleTar.Receiver {
    private final Path into;
    private final Set<Path> folders = new HashSet<>();
    private final List<BundleTar.Entry> folderEntries = new ArrayList<>();
    private final List<BundleTar.Entry> links = new ArrayList<>();

    Unpacking(Path into) throws IOException {
      this.into = into;
      Files.createDirectories(into);
      folders.add(into);
    }

    @Override
    public void receive(BundleTar.Entry entry, InputStream content) throws IOException {
      Path path = into.resolve(entry.path());
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
            content.transferTo(out);
          }
          // Without the permission to read it, a server that is not root could not give it back.
          setAttributes(path, entry.mode() | 0400, entry.modified());
        }
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
      } else if (!Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS)
          .isDirectory()) {
        throw new IOException(path + " is in the way of a folder");
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
