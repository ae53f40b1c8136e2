package berth.server.run.mount;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;

/** What is mounted, as the calling thread sees it. */
public final class MountPoints {
  private static final Pattern ESCAPED = Pattern.compile("\\\\([0-7]{3})");
  private static final int FIELD = 4;

  private MountPoints() {}

  /** The mount points at or below a folder, whose path may contain links above its last name. */
  public static List<String> atOrBelow(Path folder) throws IOException {
    Path absolute = folder.toAbsolutePath().normalize();
    String real = bytes(absolute.getParent().toRealPath().resolve(absolute.getFileName()));
    List<String> found = new ArrayList<>();
    // Not of the process: one of its threads may be in another namespace. Byte by byte: anybody can
    // mount something at a name that is no text.
    byte[] all = Files.readAllBytes(Path.of("/proc/thread-self/mountinfo"));
    for (String line : new String(all, StandardCharsets.ISO_8859_1).split("\n")) {
      String[] fields = line.split(" ");
      String point = fields.length > FIELD ? unescape(fields[FIELD]) : "";
      if (point.equals(real) || point.startsWith(real + "/")) {
        found.add(new String(point.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8));
      }
    }
    return found;
  }

  // A character for each byte of the name. What a path prints depends on the locale; its URI does
  // not.
  static String bytes(Path path) {
    String uri = path.toUri().getRawPath();
    StringBuilder bytes = new StringBuilder();
    for (int i = 0; i < uri.length(); i++) {
      if (uri.charAt(i) == '%') {
        bytes.append((char) Integer.parseInt(uri.substring(i + 1, i + 3), 16));
        i += 2;
      } else {
        bytes.append(uri.charAt(i));
      }
    }
    // Folders that exist have one at the end.
    return bytes.length() > 1 && bytes.charAt(bytes.length() - 1) == '/'
        ? bytes.substring(0, bytes.length() - 1)
        : bytes.toString();
  }

  // The kernel writes spaces, tabs, newlines and backslashes as numbers.
  static String unescape(String text) {
    return ESCAPED.matcher(text).replaceAll(MountPoints::character);
  }

  private static String character(MatchResult number) {
    char character = (char) Integer.parseInt(number.group(1), 8);
    return character == '\\' ? "\\\\" : String.valueOf(character);
  }
}
