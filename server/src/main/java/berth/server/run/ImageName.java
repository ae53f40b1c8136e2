package berth.server.run;

import java.util.Optional;
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

  private ImageName() {}

  /**
   * Whether no registry can have an image of this name: those that scripts/build-images.sh builds
   * have a host whose name never resolves (RFC 6761).
   */
  static boolean isBuiltHere(String name) {
    return BUILT_HERE.matcher(name).lookingAt();
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
              + "' has no tag; without one it is another image every day: name a"
              + " version, such as '"
              + name
              + ":1.0'");
    }
    if (matcher.group("tag").equals(":latest")) {
      return Optional.of(
          "the image '"
              + name
              + "' has the tag 'latest', which is another image every day: name a"
              + " version or a digest");
    }
    return Optional.empty();
  }
}
