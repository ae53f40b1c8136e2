package berth.host.state;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Set;

/** Folders and files that only the user of this process can enter and read. */
public final class StateFolder {
  /** For files that are made in such a folder. */
  public static final FileAttribute<Set<PosixFilePermission>> FILE_MODE = mode("rw-------");

  private static final FileAttribute<Set<PosixFilePermission>> FOLDER_MODE = mode("rwx------");
  private static final String DAMAGED = "damaged-";
  private static final DateTimeFormatter WHEN =
      DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss.SSS").withZone(ZoneOffset.UTC);

  private StateFolder() {}

  /** Makes a folder, with those above it, or closes one that is there to others. */
  public static void create(Path folder) throws IOException {
    Files.createDirectories(folder, FOLDER_MODE);
    if (!Files.getPosixFilePermissions(folder, LinkOption.NOFOLLOW_LINKS)
        .equals(FOLDER_MODE.value())) {
      Files.setPosixFilePermissions(folder, FOLDER_MODE.value());
    }
  }

  /**
   * Renames what cannot be read, so that it is in nobody's way and not lost.
   *
   * @return its new name, beside the old one
   */
  public static Path setAside(Path damaged) throws IOException {
    return aside(damaged, target -> Files.move(damaged, target));
  }

  /**
   * Keeps a copy of what cannot be read, under the name that {@link #setAside} would give it; only
   * one of the same content.
   *
   * @return its name, beside that of the original, which stays where it is
   */
  public static Path copyAside(Path damaged) throws IOException {
    try (DirectoryStream<Path> earlier =
        Files.newDirectoryStream(
            damaged.toAbsolutePath().getParent(), DAMAGED + "*-" + damaged.getFileName())) {
      for (Path copy : earlier) {
        if (Files.mismatch(copy, damaged) < 0) {
          return copy;
        }
      }
    }
    return aside(damaged, target -> Files.copy(damaged, target));
  }

  private interface Making {
    void make(Path target) throws IOException;
  }

  private static Path aside(Path damaged, Making making) throws IOException {
    String when = WHEN.format(Instant.now());
    for (int again = 0; ; again++) {
      String moment = again == 0 ? when : when + "-" + again;
      Path target = damaged.resolveSibling(DAMAGED + moment + "-" + damaged.getFileName());
      try {
        making.make(target);
        return target;
      } catch (FileAlreadyExistsException e) {
        // Two of one name within a millisecond.
      }
    }
  }

  /** Whether something was set aside by {@link #setAside}. */
  public static boolean isSetAside(Path path) {
    return path.getFileName().toString().startsWith(DAMAGED);
  }

  private static FileAttribute<Set<PosixFilePermission>> mode(String text) {
    return PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(text));
  }
}
