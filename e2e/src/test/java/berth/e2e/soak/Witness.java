package berth.e2e.soak;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * What the programs of a soak see and write down themselves, in a folder that knows nothing of
 * Berth; see {@code soaked.py}. Any thread may call.
 */
final class Witness {
  private final Path folder;
  private final Map<String, Journal> ended = new ConcurrentHashMap<>();
  private final Set<String> killed = ConcurrentHashMap.newKeySet();
  private int seen;

  Witness(Path folder) {
    this.folder = folder;
    try {
      for (String name : List.of("gpus", "tasks", "saved", "runs")) {
        Files.createDirectories(folder.resolve(name));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * The words after a script that is {@code soaked.py}.
   *
   * @param ticks how many quarters of a second it works
   * @param failures how many of its first starts fail
   * @param stubborn whether only SIGKILL stops it
   */
  List<String> words(String name, String task, int ticks, int failures, boolean stubborn) {
    return List.of(
        folder.toString(), name, task, "" + ticks, "" + failures, stubborn ? "stubborn" : "good");
  }

  /** Empty if the program of that run never began, or there is no such run. */
  Optional<Journal> journal(String run) {
    if (run.isEmpty()) {
      return Optional.empty();
    }
    Journal known = ended.get(run);
    if (known != null) {
      return Optional.of(known);
    }
    try {
      List<String> text = Files.readAllLines(folder.resolve("runs").resolve(run));
      if (text.isEmpty()) {
        return Optional.empty();
      }
      Journal journal = Journal.parse(run, text);
      if (journal.end().isPresent()) {
        ended.put(run, journal);
      }
      return Optional.of(journal);
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Those of a cluster or run of this name. */
  List<Journal> journals(String name) {
    return journals(journal -> journal.name().equals(name));
  }

  /** The programs that run at this moment. */
  List<Journal> living() {
    return journals(journal -> journal.end().isEmpty() && journal.lives());
  }

  private List<Journal> journals(Predicate<Journal> wanted) {
    try (Stream<Path> runs = Files.list(folder.resolve("runs"))) {
      return runs.map(run -> journal(run.getFileName().toString()))
          .flatMap(Optional::stream)
          .filter(wanted)
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Kills a program, and remembers that; false if it has just ended. */
  boolean kill(Journal journal) {
    killed.add(journal.run());
    Optional<ProcessHandle> process = ProcessHandle.of(journal.pid());
    return process.isPresent() && journal.lives() && process.get().destroyForcibly();
  }

  /** Whether it may have ended because of this process. */
  boolean killed(String run) {
    return killed.contains(run);
  }

  /** What programs have seen that must not be, since the last call. */
  synchronized List<String> seen() {
    try {
      List<String> all = Files.readAllLines(folder.resolve("seen"));
      List<String> news = new ArrayList<>(all.subList(seen, all.size()));
      seen = all.size();
      return news;
    } catch (NoSuchFileException e) {
      return List.of();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
