package berth.server.run;

import berth.archive.ArchivePath;
import berth.rpc.BerthException;
import berth.rpc.ByteSize;
import berth.rpc.Reason;
import java.io.BufferedInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.zip.GZIPInputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/**
 * Reads a tar, packed with gzip or not, that a stranger made: hands over its entries one by one,
 * and refuses it at the first that is not a file, a folder or a symbolic link inside of the
 * bundle's own folder, or as soon as it has more of anything than a bundle may have. For one thread
 * and one reading.
 */
final class BundleTar {
  static final int MAX_ENTRIES = 100_000;

  /** Folders inside of each other: each is an open file to those who walk through them. */
  static final int MAX_DEPTH = 100;

  // What follows keeps the memory small that a tar of a few kilobytes can ask for.
  private static final long MAX_NAMES = 16 << 20;
  private static final int MAX_PATH = 4000;
  private static final int MAX_NAME = 255;
  private static final long MAX_HEADER_BYTES = 1 << 20;
  private static final long MAX_HEADERS_BYTES = 512L << 20;

  private static final int RECORD = 512;

  enum Kind {
    FILE("a file"),
    FOLDER("a folder"),
    LINK("a symbolic link");

    private final String words;

    Kind(String words) {
      this.words = words;
    }
  }

  /**
   * @param path names separated by single slashes; none of them is {@code .} or {@code ..}
   * @param target where a link points to, from its own folder; empty for the others
   * @param mode nine bits: rwxrwxrwx
   */
  record Entry(String path, Kind kind, String target, int mode, FileTime modified) {}

  /** Takes the entries. What it leaves of the content is read to its end nevertheless. */
  interface Receiver {
    void receive(Entry entry, InputStream content) throws IOException;
  }

  private final InputStream packed;
  private final long maxBytes;
  private final Map<String, Kind> kinds = new HashMap<>();
  private long names;
  private long headerBytes;
  private long entries;
  private long bytes;
  private String last = "";

  BundleTar(InputStream packed, long maxBytes) {
    this.packed = packed;
    this.maxBytes = maxBytes;
  }

  /**
   * @throws BerthException INVALID or EXHAUSTED for what the tar is
   * @throws IOException from {@code receiver} alone
   */
  void read(Receiver receiver) throws IOException {
    Counted counted = new Counted(unpacked());
    TarArchiveInputStream tar =
        new TarArchiveInputStream(counted, StandardCharsets.UTF_8.toString());
    long padding = 0;
    while (true) {
      TarArchiveEntry header = next(tar, counted, padding);
      if (header == null) {
        return;
      }
      if (++entries > MAX_ENTRIES) {
        throw tooMany();
      }
      Entry entry = checked(header);
      try (Content content = new Content(tar, entry)) {
        if (header.getRealSize() > maxBytes - bytes) {
          throw tooLarge(bytes + header.getRealSize());
        }
        // The folder of the bundle itself is the server's, and stays as it is.
        if (!entry.path.isEmpty()) {
          receiver.receive(entry, content);
        }
        content.drain();
      }
      padding = header.isDirectory() ? 0 : Math.floorMod(-header.getSize(), RECORD);
    }
  }

  private InputStream unpacked() {
    BufferedInputStream buffered = new BufferedInputStream(packed, 1 << 16);
    try {
      buffered.mark(2);
      boolean gzip = buffered.read() == 0x1f && buffered.read() == 0x8b;
      buffered.reset();
      return gzip ? new GZIPInputStream(buffered, 1 << 16) : buffered;
    } catch (IOException e) {
      throw damaged(e);
    }
  }

  private TarArchiveEntry next(TarArchiveInputStream tar, Counted counted, long padding) {
    // The library reads headers into memory, however long they are.
    counted.allow(Math.min(MAX_HEADER_BYTES, MAX_HEADERS_BYTES - headerBytes));
    TarArchiveEntry header;
    try {
      header = tar.getNextEntry();
    } catch (BerthException e) {
      throw e;
    } catch (IOException | RuntimeException e) {
      // It reports damage in many ways.
      throw damaged(e);
    }
    long read = counted.allowAll();
    headerBytes += read;
    if (header == null && read < padding + RECORD) {
      // To the library the end of the data is as good as the record of zeros that ends a tar.
      throw entries == 0
          ? invalid("the bundle is empty, not a tar")
          : invalid("the bundle is cut off after '" + shown(last) + "'");
    }
    if (header != null && !header.isCheckSumOK()) {
      throw damaged(new IOException("wrong check sum"));
    }
    return header;
  }

  private Entry checked(TarArchiveEntry header) {
    String name = header.getName();
    checkText(name, "the name of an entry");
    Optional<ArchivePath.Escape> escape = ArchivePath.escape(name);
    if (escape.isPresent()) {
      throw invalid(
          "the entry '"
              + shown(name)
              + (escape.get() == ArchivePath.Escape.ABSOLUTE
                  ? "' has an absolute path"
                  : "' leads out of the bundle with '..'"));
    }
    List<String> parts = ArchivePath.parts(name);
    if (parts.size() > MAX_DEPTH) {
      throw invalid(
          "the entry '"
              + shown(name)
              + "' lies in "
              + (parts.size() - 1)
              + " folders, at most "
              + (MAX_DEPTH - 1)
              + " are allowed");
    }
    Kind kind = kind(header);
    String target = kind == Kind.LINK ? header.getLinkName() : "";
    if (kind == Kind.LINK) {
      checkTarget(name, target, parts.size() - 1);
    }
    String path = String.join("/", parts);
    place(path, kind);
    count(target);
    last = name;
    return new Entry(path, kind, target, header.getMode() & 0777, header.getLastModifiedTime());
  }

  private static Kind kind(TarArchiveEntry header) {
    return switch (header.getLinkFlag()) {
      // Before POSIX, folders were files whose names end with a slash.
      case TarConstants.LF_OLDNORM, TarConstants.LF_NORMAL, TarConstants.LF_CONTIG ->
          header.getName().endsWith("/") ? Kind.FOLDER : Kind.FILE;
      case TarConstants.LF_GNUTYPE_SPARSE -> Kind.FILE;
      case TarConstants.LF_DIR -> Kind.FOLDER;
      case TarConstants.LF_SYMLINK -> Kind.LINK;
      case TarConstants.LF_LINK ->
          throw refused(header, "a hard link; pack it with tar --hard-dereference");
      case TarConstants.LF_CHR, TarConstants.LF_BLK -> throw refused(header, "a device");
      case TarConstants.LF_FIFO -> throw refused(header, "a named pipe");
      default -> throw refused(header, "of the unknown type " + (header.getLinkFlag() & 0xff));
    };
  }

  private static void checkTarget(String name, String target, int depth) {
    String link = "the link '" + shown(name) + "' to '" + shown(target) + "'";
    checkText(target, "the target of the link '" + shown(name) + "'");
    Optional<ArchivePath.Escape> escape = ArchivePath.escapeOfLink(target, depth);
    if (escape.isPresent()) {
      throw invalid(
          link
              + switch (escape.get()) {
                case ABSOLUTE -> " has an absolute target";
                case UPWARD_LATER -> " has a '..' that is not at the beginning";
                case UPWARD -> " leads out of the bundle";
              });
    }
  }

  /**
   * Puts an entry among those before it: a path is one thing, and below files and links is nothing.
   */
  private void place(String path, Kind kind) {
    for (int end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
      String parent = path.substring(0, end);
      Kind there = kinds.putIfAbsent(parent, Kind.FOLDER);
      if (there == Kind.FOLDER) {
        break;
      }
      if (there != null) {
        throw invalid(
            "the entry '"
                + shown(path)
                + "' lies below '"
                + shown(parent)
                + "', which is "
                + there.words);
      }
      count(parent);
    }
    Kind before = path.isEmpty() ? Kind.FOLDER : kinds.putIfAbsent(path, kind);
    if (before == null) {
      count(path);
    } else if (before != kind) {
      throw invalid(
          "the entry '" + shown(path) + "' is " + before.words + " and " + kind.words + " in one");
    }
    if (kinds.size() > MAX_ENTRIES) {
      throw tooMany();
    }
  }

  private void count(String text) {
    names += text.length();
    if (names > MAX_NAMES) {
      throw new BerthException(
          Reason.EXHAUSTED,
          "the names in the bundle take more than " + MAX_NAMES + " characters in all");
    }
  }

  private static void checkText(String text, String what) {
    if (text.isEmpty()) {
      throw invalid(what + " is empty");
    }
    if (text.chars().anyMatch(Character::isISOControl)) {
      throw invalid(what + " has control characters: '" + shown(text) + "'");
    }
    try {
      Path.of(text);
    } catch (InvalidPathException e) {
      throw invalid(
          what + " has characters that this server has no files for: '" + shown(text) + "'");
    }
    if (utf8Length(text) > MAX_PATH) {
      throw invalid(what + " is longer than " + MAX_PATH + " bytes: '" + shown(text) + "'");
    }
    for (String part : text.split("/")) {
      if (utf8Length(part) > MAX_NAME) {
        throw invalid(
            what + " has a part longer than " + MAX_NAME + " bytes: '" + shown(text) + "'");
      }
    }
  }

  private static int utf8Length(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }

  /** What of a stranger's text may go to a terminal. */
  private static String shown(String text) {
    String start = text.length() > 200 ? text.substring(0, 200) + "..." : text;
    return start.replaceAll("\\p{Cntrl}", "?");
  }

  private BerthException damaged(Exception e) {
    String after = entries == 0 ? "not a tar" : "damaged or cut off after '" + shown(last) + "'";
    return new BerthException(
        Reason.INVALID,
        "the bundle is " + after + " (" + shown(String.valueOf(e.getMessage())) + ")",
        e);
  }

  private static BerthException refused(TarArchiveEntry header, String what) {
    return invalid("the entry '" + shown(header.getName()) + "' is " + what);
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }

  private BerthException tooLarge(long found) {
    return new BerthException(
        Reason.EXHAUSTED,
        "the bundle unpacks to "
            + ByteSize.text(found)
            + " or more, this server allows "
            + ByteSize.text(maxBytes));
  }

  private static BerthException tooMany() {
    return new BerthException(
        Reason.EXHAUSTED, "the bundle has more than " + MAX_ENTRIES + " entries, folders included");
  }

  /** The content of the current entry, as far as the bundle may still grow. */
  private final class Content extends InputStream {
    private final TarArchiveInputStream tar;
    private final Entry entry;

    Content(TarArchiveInputStream tar, Entry entry) {
      this.tar = tar;
      this.entry = entry;
    }

    @Override
    public int read() {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) {
      if (entry.kind != Kind.FILE) {
        return -1;
      }
      int read;
      try {
        read = tar.read(buffer, offset, length);
      } catch (IOException | RuntimeException e) {
        throw damaged(e);
      }
      bytes += Math.max(0, read);
      if (bytes > maxBytes) {
        throw tooLarge(bytes);
      }
      return read;
    }

    void drain() {
      byte[] buffer = new byte[1 << 16];
      while (read(buffer, 0, buffer.length) >= 0) {
        // Reads, where skipping would not notice that the data ends too early.
      }
    }

    @Override
    public void close() {}
  }

  /** Counts what the library reads, and stops it where it may read no more. */
  private static final class Counted extends FilterInputStream {
    private long allowed = Long.MAX_VALUE;
    private long count;

    Counted(InputStream in) {
      super(in);
    }

    void allow(long bytes) {
      allowed = bytes;
      count = 0;
    }

    /** Lifts the limit; returns what was read under it. */
    long allowAll() {
      allowed = Long.MAX_VALUE;
      return count;
    }

    @Override
    public int read() throws IOException {
      int read = super.read();
      add(read < 0 ? 0 : 1);
      return read;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) throws IOException {
      int read = super.read(buffer, offset, length);
      add(Math.max(0, read));
      return read;
    }

    @Override
    public long skip(long bytes) throws IOException {
      long skipped = super.skip(bytes);
      add(skipped);
      return skipped;
    }

    @Override
    public boolean markSupported() {
      return false;
    }

    private void add(long bytes) {
      count += bytes;
      if (count > allowed) {
        throw new BerthException(
            Reason.EXHAUSTED,
            "the bundle has headers of more than "
                + MAX_HEADER_BYTES
                + " bytes for one entry, or "
                + MAX_HEADERS_BYTES
                + " in all");
      }
    }
  }
}
