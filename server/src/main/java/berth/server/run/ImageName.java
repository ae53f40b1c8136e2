package berth.server.run;

import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the name of an image must look like: {@code [registry/]path[:tag][@digest]}. */
final class ImageName {
  private static final Pattern FORM =
      Pattern.compile(
          "(?:[A-Za-z0-9.-]+(?::\\d{1,5})?/)?" // a registry; a path without one matches too
              + "[a-z0-9]+(?:[._/-]+[a-z0-9]+)*"
              + "(?<tag>:\\w[\\w.-]{0,127})?"
              + "(?<digest>@sha256:[0-9a-f]{64})?");

  private static final Pattern BUILT_HERE =
      Pattern.compile("[a-z0-9.-]+\\.invalid(?::\\d+)?/", Pattern.CASE_INSENSITIVE);

  private static final Pattern HOST =
      Pattern.compile("(?<host>[^/]*[.:][^/]*|localhost|[^/]*[A-Z][^/]*)/(?<path>.+)");

  private static final String HUB = "docker.io";

  // All lead to the same registry.
  private static final Set<String> NAMES_OF_HUB =
      Set.of(HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com");

  private ImageName() {}

  /**
   * Whether no registry can have an image of this name: those that scripts/build-images.sh builds
   * have a host whose name never resolves (RFC 6761).
   */
  static boolean isBuiltHere(String name) {
    return BUILT_HERE.matcher(name).lookingAt();
  }

  /**
   * Whether earlier versions of scripts/build-images.sh gave their images such names, which at
   * Docker Hub belong to whoever takes them.
   */
  static boolean isFormerlyBuiltHere(String name) {
    return repository(name).startsWith(HUB + "/berth/");
  }

  /**
   * Whether one name leads an engine to an image that the other leads it to: the same repository,
   * in whichever spelling, with the same tag or the same digest.
   */
  static boolean same(String one, String other) {
    return repository(one).equals(repository(other))
        && (part("tag", one).filter(tag -> part("tag", other).equals(Optional.of(tag))).isPresent()
            || part("digest", one)
                .filter(digest -> part("digest", other).equals(Optional.of(digest)))
                .isPresent());
  }

  // As an engine completes it: "busybox:1" is docker.io/library/busybox:1.
  private static String repository(String name) {
    String plain = name.replaceFirst("@.*", "").replaceFirst(":[^/:]*$", "");
    Matcher matcher = HOST.matcher(plain);
    if (!matcher.matches()) {
      return HUB + "/" + (plain.contains("/") ? plain : "library/" + plain);
    }
    String host = matcher.group("host").toLowerCase(Locale.ROOT).replaceFirst(":443$", "");
    String path = matcher.group("path");
    if (!NAMES_OF_HUB.contains(host)) {
      return host + "/" + path;
    }
    return HUB + "/" + (path.contains("/") ? path : "library/" + path);
  }

  private static Optional<String> part(String group, String name) {
    Matcher matcher = FORM.matcher(name);
    return matcher.matches() ? Optional.ofNullable(matcher.group(group)) : Optional.empty();
  }

  /** What is wrong with a name, as a sentence; nothing if it names one image for good. */
  static Optional<String> problem(String name) {
    var matcher = FORM.matcher(name);
    if (name.length() > 500 || !matcher.matches()) {
      return Optional.of("'" + name + "' is not the name of an image such as busybox:1.35");
    }
    if (matcher.group("digest") != null) {
      return Optional.empty();
    }
    if (matcher.group("tag") == null) {
      return Optional.of(
          "the image '"
              + name
              + "' has no tag, and 'latest' may change every day: name a version, for example '"
              + name
              + ":1.0'");
    }
    if (matcher.group("tag").equals(":latest")) {
      return Optional.of(
          "the image '"
              + name
              + "' has the tag 'latest', which may change every day: name a version or a digest");
    }
    return Optional.empty();
  }
}
