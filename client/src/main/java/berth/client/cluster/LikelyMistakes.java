package berth.client.cluster;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;

/**
 * What is allowed in a request, but probably not meant: a type of tasks or a placeholder that
 * differs by a letter or two from a known one. Types may have any name, and other braces are for
 * the program, so none of it is refused.
 */
public final class LikelyMistakes {
  private static final Set<String> OWN_PLACEHOLDERS =
      Set.of("job_name", "task_index", "host", "port");

  private LikelyMistakes() {}

  /** A sentence for each, in the order of the tasks. What several types have is told once. */
  public static List<String> of(ClusterRequest request) {
    Set<String> mistakes = new LinkedHashSet<>();
    Set<String> placeholders = placeholders(request);
    for (TaskGroup group : request.groups()) {
      type(group.type()).ifPresent(mistakes::add);
      for (String name : unknown(group, placeholders)) {
        Spelling.nearest(name, placeholders)
            .map(
                meant ->
                    String.format(
                        "{%s} is not a placeholder and is passed as it is; did you mean {%s}?",
                        name, meant))
            .ifPresent(mistakes::add);
      }
    }
    return List.copyOf(mistakes);
  }

  private static Optional<String> type(String type) {
    return TaskGroup.USUAL_TYPES.contains(type)
        ? Optional.empty()
        : Spelling.nearest(type, new TreeSet<>(TaskGroup.USUAL_TYPES))
            .map(
                meant ->
                    "'"
                        + type
                        + "' is not a task type of TensorFlow and is not in TF_CONFIG; did you mean"
                        + " '"
                        + meant
                        + "'?");
  }

  private static Set<String> placeholders(ClusterRequest request) {
    Set<String> known = new TreeSet<>(OWN_PLACEHOLDERS);
    request.groups().forEach(group -> known.add(group.type() + ClusterSpec.HOSTS));
    ClusterSpec.ALWAYS_KNOWN.forEach(type -> known.add(type + ClusterSpec.HOSTS));
    return known;
  }

  private static Set<String> unknown(TaskGroup group, Set<String> known) {
    Set<String> unknown = new LinkedHashSet<>();
    for (String word : group.run().program().words()) {
      Matcher matcher = ClusterSpec.BRACES.matcher(word);
      while (matcher.find()) {
        if (!known.contains(matcher.group(1))) {
          unknown.add(matcher.group(1));
        }
      }
    }
    return unknown;
  }
}
