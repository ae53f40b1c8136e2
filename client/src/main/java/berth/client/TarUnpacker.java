package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;

/**
 * Unpacks a tar that somebody else made, and writes nothing outside of the folder, whatever it
 * says: no absolute names, no {@code ..}, nothing through a link, no devices.
 */
public final class TarUnpacker {
  /**
   * What came of a tar.
   *
   * @param files how many files were written
   * @param leftOut what was not, one sentence each: links that lead out of the folder, devices
   */
  public record Unpacked(int files, List<String> leftOut) {}

  private final Path root;
  private final List<String> leftOut = new ArrayList<>();
  private int files;

  private TarUnpacker(Path root) {
    this.root = root;
  }

  /**
   * Unpacks into {@code folder}, which is made if it is not there. A file that exists is replaced
   * once the new one is complete. Any thread may call.
   *
   * @param rename gives each name the one to unpack it under; empty: not at all
   * @throws BerthException if a name leads out of the folder or through a link; what came before it
   *     is unpacked then
   * @throws IOException if the tar is none, or the folder cannot be written
   */
  public static Unpacked unpack(InputStream tar, Path folder, UnaryOperator<String> rename)
      throws IOException {
    if (!Files.isDirectory(folder)) {
      Files.createDirectories(folder);
    }
    // A folder that is itself a link is the caller's choice.
    TarUnpacker unpacker = new TarUnpacker(folder.toRealPath());
    try (TarArchiveInputStream in =
        new TarArchiveInputStream(new BufferedInputStream(tar, 1 << 16), "UTF-8")) {
      TarArchiveEntry entry;
      while ((entry = in.getNextEntry()) != null) {
        String name = checked(entry.getName());
        String renamed = name.isEmpty() ? "" : checked(rename.apply(name));
        if (!renamed.isEmpty()) {
          unpacker.unpack(in, entry, renamed);
        }
      }
    }
    return new Unpacked(unpacker.files, List.copyOf(unpacker.leftOut));
  }

  /** The same name without what changes nothing; empty for the folder itself. */
  private static String checked(String name) {
    List<String> parts = new ArrayList<>();
    for (String part : name.split("/")) {
      if (part.equals("..")) {
        throw outside(name);
      }
      if (!part.isEmpty() && !part.equals(".")) {
        parts.add(part);
      }
    }
    if (name.startsWith("/") || name.indexOf('\0') >= 0) {
      throw outside(name);
    }
    return String.join("/", parts);
  }

  private static BerthException outside(String name) {
    return new BerthException(
        Reason.INVALID, "will not unpack '" + name + "': it lies outside of the folder");
  }

  private void unpack(InputStream content, TarArchiveEntry entry, String name) throws IOException {
    Path target = root.resolve(name);
    if (entry.isDirectory()) {
      makeFolders(target);
      // Its owner must be able to write what follows.
      setMode(target, entry.getMode() | 0700);
      return;
    }
    boolean link = entry.isSymbolicLink();
    if (!link && !isFile(entry)) {
      leftOut.add(name + ": neither file nor folder nor symbolic link");
      return;
    }
    if (link && !staysInside(name, entry.getLinkName())) {
      leftOut.add(name + ": a link that leads out of the folder, to " + entry.getLinkName());
      return;
    }
    makeFolders(target.getParent());
    if (Files.isDirectory(target, LinkOption.NOFOLLOW_LINKS)) {
      throw new BerthException(
          Reason.CONFLICT, "will not replace the folder " + target + " by a file");
    }
    // Made under another name and then renamed: rename replaces a link, where writing would follow
    // it, and nobody sees half a file.
    Path part = unused(target);
    try {
      if (link) {
        Files.createSymbolicLink(part, Path.of(entry.getLinkName()));
      } else {
        Files.copy(content, part);
        setMode(part, entry.getMode());
        Files.setLastModifiedTime(part, FileTime.from(entry.getLastModifiedTime().toInstant()));
      }
      Files.move(part, target, StandardCopyOption.ATOMIC_MOVE);
      files++;
    } finally {
      Files.deleteIfExists(part);
    }
  }

  // Not the library's isFile, which is true of all that it knows no better.
  private static boolean isFile(TarArchiveEntry entry) {
    return switch (entry.getLinkFlag()) {
      case TarConstants.LF_NORMAL, TarConstants.LF_OLDNORM, TarConstants.LF_CONTIG -> true;
      default -> entry.isSparse();
    };
  }

  private void makeFolders(Path folder) throws IOException {
    Path current = root;
    for (Path step : root.relativize(folder)) {
      current = current.resolve(step);
      if (Files.isSymbolicLink(current)) {
        throw new BerthException(
            Reason.INVALID, "will not unpack into " + current + ": it is a link");
      }
      try {
        if (!Files.isDirectory(current, LinkOption.NOFOLLOW_LINKS)) {
          Files.createDirectory(current);
        }
      } catch (FileAlreadyExistsException e) {
        throw new BerthException(
            Reason.CONFLICT, "will not replace the file " + current + " by a folder", e);
      }
    }
  }

  // ".." only in front: there it leads up real folders, further on perhaps up from behind a link.
  private static boolean staysInside(String name, String link) {
    int depth = name.split("/").length - 1;
    boolean up = true;
    for (String part : link.split("/")) {
      if (part.equals("..")) {
        depth--;
        if (!up || depth < 0) {
          return false;
        }
      } else {
        up &= part.equals(".");
      }
    }
    return !link.isEmpty() && !link.startsWith("/") && link.indexOf('\0') < 0;
  }

  private static Path unused(Path target) {
    int number = 0;
    Path part;
    do {
      part = target.resolveSibling(".berth-part-" + number++);
    } while (Files.exists(part, LinkOption.NOFOLLOW_LINKS));
    return part;
  }

  private static void setMode(Path path, int mode) throws IOException {
    // Their order is that of the bits.
    PosixFilePermission[] bits = PosixFilePermission.values();
    Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
    for (int i = 0; i < bits.length; i++) {
      if ((mode & 0400 >> i) != 0) {
        permissions.add(bits[i]);
      }
    }
    Files.setPosixFilePermissions(path, permissions);
  }
}
