package berth.server.run;

import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;

/** Files that have no name any more, but take room on a disk while somebody has them open. */
public final class UnlinkedFiles {
  // What the kernel adds to their names.
  private static final String DELETED = " (deleted)";
  private static final String[] OPEN = {"fd", "map_files"};
  private static final int BLOCK = 512;
  private static final int AT_ONCE = 500;

  private UnlinkedFiles() {}

  /**
   * The bytes that those of some processes take on disks. Not those in memory, which is limited
   * otherwise.
   *
   * @param counts tells by the path that a file had, as its process saw it
   */
  public static long bytes(Collection<Integer> pids, Predicate<String> counts) {
    List<String> found = new ArrayList<>();
    for (int pid : pids) {
      for (String kind : OPEN) {
        collect(Path.of("/proc/" + pid, kind), counts, found);
      }
    }
    long blocks = 0;
    Set<String> seen = new HashSet<>();
    for (int i = 0; i < found.size(); i += AT_ONCE) {
      List<String> some = found.subList(i, Math.min(found.size(), i + AT_ONCE));
      // Anybody may name a file so that still has its name.
      List<String> unlinked = new ArrayList<>();
      List<String[]> facts = new ArrayList<>();
      for (String line : stat(some, "-c", "%h %b %d:%i %n")) {
        String[] words = line.split(" ", 4);
        if (words.length == 4 && words[0].equals("0") && seen.add(words[2])) {
          unlinked.add(words[3]);
          facts.add(words);
        }
      }
      Set<String> inMemory = new HashSet<>();
      for (String line : unlinked.isEmpty() ? List.<String>of() : stat(unlinked, "-fc", "%T %n")) {
        String[] words = line.split(" ", 2);
        if (words[0].equals("tmpfs") || words[0].equals("hugetlbfs")) {
          inMemory.add(words[1]);
        }
      }
      for (String[] words : facts) {
        blocks += inMemory.contains(words[3]) ? 0 : Long.parseLong(words[1]);
      }
    }
    return blocks * BLOCK;
  }

  private static void collect(Path folder, Predicate<String> counts, List<String> found) {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        try {
          String name = Files.readSymbolicLink(file).toString();
          if (name.startsWith("/")
              && name.endsWith(DELETED)
              && counts.test(name.substring(0, name.length() - DELETED.length()))) {
            found.add(file.toString());
          }
        } catch (IOException e) {
          // It was closed meanwhile.
        }
      }
    } catch (IOException | DirectoryIteratorException e) {
      // It has ended, or this user may not look.
    }
  }

  // Java does not tell how many blocks a file has, and one with holes has few.
  private static List<String> stat(List<String> files, String... what) {
    List<String> words = new ArrayList<>(List.of("stat", "-L"));
    words.addAll(List.of(what));
    words.add("--");
    words.addAll(files);
    try {
      Process process =
          new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      process.getOutputStream().close();
      return process.inputReader().lines().toList();
    } catch (IOException e) {
      return List.of();
    }
  }
}
