package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/** The folders of this machine that programs may see, as the administrator allows them. */
final class MountRules {
  private record Rule(Path folder, boolean readOnly) {
    Optional<Rule> real() {
      try {
        return Optional.of(new Rule(folder.toRealPath(), readOnly));
      } catch (IOException e) {
        // Not mounted at the moment, for example. Then nothing lies below it.
        return Optional.empty();
      }
    }

    @Override
    public String toString() {
      return folder + (readOnly ? " (read only)" : "");
    }
  }

  private final List<Rule> rules;

  private MountRules(List<Rule> rules) {
    this.rules = rules;
  }

  /**
   * @param entries such as {@code /data:ro}, {@code /scratch:rw} or {@code /home}, which is {@code
   *     rw} too
   * @throws BerthException INVALID for an entry that is none of these, or says what another denies
   */
  static MountRules parse(List<String> entries) {
    List<Rule> rules = new ArrayList<>();
    for (String entry : entries) {
      Rule rule = parse(entry);
      if (rules.stream().anyMatch(other -> other.folder.equals(rule.folder))) {
        throw invalid("the folder " + rule.folder + " for mounts is given twice");
      }
      rules.add(rule);
    }
    return new MountRules(List.copyOf(rules));
  }

  private static Rule parse(String entry) {
    boolean readOnly = entry.endsWith(":ro");
    String folder =
        readOnly || entry.endsWith(":rw") ? entry.substring(0, entry.length() - 3) : entry;
    // A colon would end the path for docker.
    if (!folder.startsWith("/") || folder.contains(":")) {
      throw invalid(
          "'" + entry + "' is not an absolute folder for mounts such as /data or /data:ro");
    }
    try {
      return new Rule(Path.of(folder).normalize(), readOnly);
    } catch (InvalidPathException e) {
      throw invalid("'" + entry + "' is not a path: " + e.getReason());
    }
  }

  /**
   * Returns the real path of a folder that a program asks to see, with symbolic links resolved: it
   * is this path that must be mounted. The most specific rule decides.
   *
   * @throws BerthException DENIED if the administrator does not allow it; INVALID if it is not the
   *     absolute path of a folder
   */
  Path check(Path source, boolean readOnly) {
    if (!source.isAbsolute()) {
      throw invalid("mount of '" + source + "' asked, which is not an absolute path");
    }
    Path real = realPath(source);
    List<Rule> realRules = rules.stream().flatMap(rule -> rule.real().stream()).toList();
    Rule rule =
        realRules.stream()
            .filter(each -> real.startsWith(each.folder))
            // Where two rules lead to the same folder by way of a link, the stricter one.
            .max(
                Comparator.comparingInt((Rule each) -> each.folder.getNameCount())
                    .thenComparing(Rule::readOnly))
            .orElseThrow(() -> denied(source, ""));
    if (!Files.isDirectory(real)) {
      throw noFolder(source);
    }
    if (!readOnly) {
      if (rule.readOnly) {
        throw denied(source, " to write to");
      }
      // Else a folder that may only be read could be written to by way of the one around it.
      realRules.stream()
          .filter(each -> each.readOnly && each.folder.startsWith(real))
          .findFirst()
          .ifPresent(
              inside -> {
                throw denied(source, " to write to, with " + inside.folder + " inside");
              });
    }
    return real;
  }

  private Path realPath(Path source) {
    try {
      return source.toRealPath();
    } catch (IOException e) {
      // Whether something exists where nothing is allowed is nobody's business.
      Path path = source.normalize();
      throw rules.stream().anyMatch(rule -> path.startsWith(rule.folder))
          ? noFolder(source)
          : denied(source, "");
    }
  }

  private BerthException denied(Path source, String how) {
    String allowed =
        rules.isEmpty()
            ? "none"
            : rules.stream().map(Rule::toString).collect(Collectors.joining(", "));
    return new BerthException(
        Reason.DENIED, "mount of " + source + how + " asked, the administrator allows " + allowed);
  }

  private static BerthException noFolder(Path source) {
    return invalid("mount of " + source + " asked, there is no such folder on this server");
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }
}
