package berth.archive;

import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/** The names in an archive, and which of them stay inside of the folder it is unpacked into. */
public final class ArchivePath {
  /** How one leads out of the folder. */
  public enum Escape {
    ABSOLUTE,
    UPWARD,
    /** By {@code ..} after another name, which may be that of a link. */
    UPWARD_LATER
  }

  private ArchivePath() {}

  /** A name without what changes nothing; no parts: the folder itself. */
  public static List<String> parts(String name) {
    return Stream.of(name.split("/")).filter(part -> !part.isEmpty() && !part.equals(".")).toList();
  }

  /** How the name of an entry leads out; empty if it stays inside. */
  public static Optional<Escape> escape(String name) {
    if (name.startsWith("/")) {
      return Optional.of(Escape.ABSOLUTE);
    }
    return parts(name).contains("..") ? Optional.of(Escape.UPWARD) : Optional.empty();
  }

  /**
   * How a link leads out; empty if it stays inside. With {@code ..} only at its beginning, where it
   * starts from real folders, it cannot do so by way of other links either.
   *
   * @param depth in how many folders the link lies
   */
  public static Optional<Escape> escapeOfLink(String target, int depth) {
    if (target.startsWith("/")) {
      return Optional.of(Escape.ABSOLUTE);
    }
    List<String> parts = parts(target);
    int ups = 0;
    while (ups < parts.size() && parts.get(ups).equals("..")) {
      ups++;
    }
    if (parts.subList(ups, parts.size()).contains("..")) {
      return Optional.of(Escape.UPWARD_LATER);
    }
    return ups > depth ? Optional.of(Escape.UPWARD) : Optional.empty();
  }
}
