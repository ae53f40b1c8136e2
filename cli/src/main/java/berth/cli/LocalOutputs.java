package berth.cli;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Looks before a run whether the files that it is to bring have a place here. Whether each of them
 * has one is certain only when they come.
 */
final class LocalOutputs {
  /** Where a pattern of paths has its first wildcard. */
  static final Pattern WILD = Pattern.compile("[*?\\[{]");

  private static final int MOST_FILES = 100_000;

  private LocalOutputs() {}

  /**
   * @param folder where they are put
   * @param patterns which files, by paths below the working folder of the run
   * @throws BerthException if the folder is none and cannot become one, or a file would be
   *     overwritten and must not
   */
  static void check(Path folder, List<String> patterns, boolean overwrite) throws IOException {
    Path parent = folder.toAbsolutePath().normalize().getParent();
    if (parent != null && !Files.isDirectory(parent)) {
      throw new BerthException(
          Reason.INVALID, "--output-dir " + folder + ": no folder " + parent + "; create it first");
    }
    if (Files.exists(folder) && !Files.isDirectory(folder)) {
      throw new BerthException(Reason.INVALID, "--output-dir " + folder + " is not a folder");
    }
    for (String pattern : overwrite ? List.<String>of() : patterns) {
      Optional<Path> existing = existing(folder, pattern);
      if (existing.isPresent()) {
        throw new BerthException(
            Reason.ALREADY_EXISTS,
            "--output " + pattern + ": " + existing.get() + " exists; use --force to overwrite");
      }
    }
  }

  private static Optional<Path> existing(Path folder, String pattern) throws IOException {
    if (pattern.startsWith("/") || pattern.contains("..")) {
      // The server says what is wrong with it.
      return Optional.empty();
    }
    if (!WILD.matcher(pattern).find()) {
      Path named = folder.resolve(pattern).normalize();
      return Files.isDirectory(named, LinkOption.NOFOLLOW_LINKS)
          ? first(named, Integer.MAX_VALUE, file -> true)
          : Optional.of(named).filter(file -> Files.exists(file, LinkOption.NOFOLLOW_LINKS));
    }
    PathMatcher matcher;
    try {
      matcher = folder.getFileSystem().getPathMatcher("glob:" + pattern);
    } catch (PatternSyntaxException e) {
      return Optional.empty();
    }
    int depth = pattern.contains("**") ? Integer.MAX_VALUE : Path.of(pattern).getNameCount();
    Path start = folder.resolve(literal(pattern));
    if (!Files.isDirectory(start)) {
      return Optional.empty();
    }
    return first(start, depth, file -> matcher.matches(folder.relativize(file)));
  }

  /** The first file or link below a folder that fits. What cannot be read is passed over. */
  private static Optional<Path> first(Path start, int depth, Predicate<Path> fits)
      throws IOException {
    List<Path> found = new ArrayList<>();
    Files.walkFileTree(
        start,
        Set.of(),
        depth,
        new SimpleFileVisitor<>() {
          private int seen;

          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            if (!attributes.isDirectory() && fits.test(file)) {
              found.add(file);
            }
            return found.isEmpty() && ++seen < MOST_FILES
                ? FileVisitResult.CONTINUE
                : FileVisitResult.TERMINATE;
          }

          @Override
          public FileVisitResult visitFileFailed(Path file, IOException failure) {
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult postVisitDirectory(Path folder, IOException failure) {
            return FileVisitResult.CONTINUE;
          }
        });
    return found.stream().findFirst();
  }

  /** The folders that a pattern names before its first wildcard. */
  private static String literal(String pattern) {
    String[] parts = WILD.split(pattern, 2);
    return parts[0].substring(0, parts[0].lastIndexOf('/') + 1);
  }
}
