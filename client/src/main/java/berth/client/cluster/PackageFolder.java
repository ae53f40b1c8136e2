package berth.client.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.supervision.SupervisionFolder;
import java.io.IOException;
import java.io.InputStream;
import java.nio.channels.Channels;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SecureDirectoryStream;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The folder of a package that a stranger may have made. Only names that {@link ClusterPackage}
 * gives are opened, only below the folder, only regular files, and no link is followed. Nobody
 * changes the folder while it is read.
 */
final class PackageFolder {
  private static final long LARGEST_REQUEST = 4 << 20;
  private static final long LARGEST_SCRIPT = 8 << 20;
  private static final int LONGEST_SHOWN = 300;

  private static final Pattern FILES = Pattern.compile("files-\\d{1,4}\\.tar");
  private static final Pattern SCRIPT =
      Pattern.compile("(script-\\d{1,4})/([^/\\p{Cc}\\p{Cf}\\u2028\\u2029]{1,255})");

  private final Path folder;

  PackageFolder(Path folder) {
    this.folder = folder;
  }

  /** The request as text. */
  byte[] request() throws IOException {
    try (SecureDirectoryStream<Path> top = open();
        InputStream in = open(top, SupervisionFolder.DESCRIPTION, LARGEST_REQUEST)) {
      return in.readNBytes((int) LARGEST_REQUEST);
    }
  }

  /** The files of a task, packed. */
  InputStream files(String name) throws IOException {
    if (!FILES.matcher(name).matches()) {
      throw foreign(name);
    }
    try (SecureDirectoryStream<Path> top = open()) {
      return open(top, name, Long.MAX_VALUE);
    }
  }

  /** Where a script is that is sent alone. */
  Path script(String name) throws IOException {
    var matcher = SCRIPT.matcher(name);
    if (!matcher.matches() || Set.of(".", "..").contains(matcher.group(2))) {
      throw foreign(name);
    }
    try (SecureDirectoryStream<Path> top = open();
        SecureDirectoryStream<Path> below = below(top, matcher.group(1))) {
      open(below, matcher.group(2), LARGEST_SCRIPT).close();
      return folder.resolve(name);
    }
  }

  private SecureDirectoryStream<Path> open() throws IOException {
    DirectoryStream<Path> opened = Files.newDirectoryStream(folder);
    if (opened instanceof SecureDirectoryStream<Path> secure) {
      return secure;
    }
    opened.close();
    throw new IOException("this system cannot open files without following links");
  }

  private static SecureDirectoryStream<Path> below(SecureDirectoryStream<Path> top, String name)
      throws IOException {
    try {
      return top.newDirectoryStream(Path.of(name), LinkOption.NOFOLLOW_LINKS);
    } catch (NoSuchFileException e) {
      throw invalid("the package has no folder '" + name + "'");
    } catch (FileSystemException e) {
      throw invalid("'" + name + "' in the package is a link or no folder");
    }
  }

  // Looked at before it is opened: a named pipe would be waited for.
  private static InputStream open(SecureDirectoryStream<Path> in, String name, long largest)
      throws IOException {
    Path path = Path.of(name);
    BasicFileAttributes found;
    try {
      found =
          in.getFileAttributeView(path, BasicFileAttributeView.class, LinkOption.NOFOLLOW_LINKS)
              .readAttributes();
    } catch (NoSuchFileException e) {
      throw invalid("the package has no file '" + name + "'");
    }
    if (!found.isRegularFile()) {
      throw invalid("'" + name + "' in the package is a link or no regular file");
    }
    if (found.size() > largest) {
      throw invalid(
          "'"
              + name
              + "' in the package has "
              + found.size()
              + " bytes, at most "
              + largest
              + " are allowed");
    }
    return Channels.newInputStream(
        in.newByteChannel(path, Set.of(StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS)));
  }

  private static BerthException foreign(String name) {
    return invalid("the package names the file '" + shown(name) + "', which no package has");
  }

  /** What of a stranger's text may be shown. */
  static String shown(String text) {
    return text.substring(0, Math.min(text.length(), LONGEST_SHOWN))
        .replaceAll("[\\p{Cc}\\p{Cf}\\u2028\\u2029]", "?");
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
