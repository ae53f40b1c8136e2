package berth.host.lock;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A keeper, and what it has inherited.
 *
 * @param descriptors its descriptors of lock files, by the names of the files
 * @param former the keeper whose place it has taken, or takes in this moment
 */
public record Kept(Keeper keeper, Map<String, List<Integer>> descriptors, Optional<Kept> former) {
  private static final String NEXT = ";";

  public Kept {
    descriptors = Map.copyOf(descriptors);
    former = former.map(kept -> new Kept(kept.keeper, kept.descriptors));
  }

  private Kept(Keeper keeper, Map<String, List<Integer>> descriptors) {
    this(keeper, descriptors, Optional.empty());
  }

  /** Itself and the former one. */
  public List<Kept> all() {
    return Stream.concat(Stream.of(this), former.stream()).toList();
  }

  public int descriptorCount() {
    return descriptors.values().stream().mapToInt(List::size).sum();
  }

  /**
   * Whether it has fewer files than these, by their names: those that were locked anew since. The
   * numbers of the descriptors say nothing, they may be another process's.
   */
  public boolean lacks(Map<String, List<Integer>> locked) {
    return locked.entrySet().stream()
        .anyMatch(
            file ->
                descriptors.getOrDefault(file.getKey(), List.of()).size() < file.getValue().size());
  }

  /** Ends the keepers. */
  public void kill() {
    all().forEach(kept -> kept.keeper.kill());
  }

  /** As a record has it. */
  public String text() {
    return all().stream().map(Kept::one).collect(Collectors.joining(NEXT));
  }

  private String one() {
    List<String> words = new ArrayList<>();
    words.add(Integer.toString(keeper.pid()));
    words.add(Long.toString(keeper.started()));
    descriptors.forEach((name, fds) -> words.add(name + "=" + join(fds)));
    return String.join(" ", words);
  }

  /**
   * Reads what {@link #text} wrote. Empty if none of the keepers lives.
   *
   * @throws RuntimeException if it is something else
   */
  public static Optional<Kept> living(String text) {
    List<Kept> living =
        Stream.of(text.split(NEXT)).map(Kept::parse).filter(kept -> kept.keeper.alive()).toList();
    return living.stream()
        .findFirst()
        .map(kept -> new Kept(kept.keeper, kept.descriptors, living.stream().skip(1).findFirst()));
  }

  private static Kept parse(String text) {
    String[] words = text.split(" ");
    Map<String, List<Integer>> descriptors = new LinkedHashMap<>();
    for (int i = 2; i < words.length; i++) {
      String[] parts = words[i].split("=", 2);
      descriptors.put(parts[0], Stream.of(parts[1].split(",")).map(Integer::valueOf).toList());
    }
    return new Kept(new Keeper(Integer.parseInt(words[0]), Long.parseLong(words[1])), descriptors);
  }

  private static String join(List<Integer> numbers) {
    return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
  }
}
