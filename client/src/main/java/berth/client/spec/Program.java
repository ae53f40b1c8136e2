package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.FileFailure;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * What is to be run: a script of this machine with its arguments, or a command.
 *
 * @param words the script or the command, and its arguments
 * @param isCommand whether it is a command
 * @param bundle the folder that is sent along; a script is named by its path in it
 * @param interpreter what runs the script, if that was said
 */
public record Program(
    List<String> words, boolean isCommand, Optional<Path> bundle, List<String> interpreter) {
  private static final int MAX_FIRST_LINE = 255;
  private static final Pattern SHELL = Pattern.compile("(^|[/\\s])(ba|da|k|z)?sh($|\\s)");

  public Program {
    words = List.copyOf(words);
    interpreter = List.copyOf(interpreter);
  }

  /** The words of an option that takes several: {@code 'python3 -u'}. */
  public static List<String> words(String text) {
    return text.isBlank() ? List.of() : List.of(text.trim().split("\\s+"));
  }

  /** The same with other words for its command, or for the arguments of its script. */
  public Program with(UnaryOperator<String> change) {
    int kept = isCommand ? 0 : 1;
    List<String> changed =
        Stream.concat(words.stream().limit(kept), words.stream().skip(kept).map(change)).toList();
    return new Program(changed, isCommand, bundle, interpreter);
  }

  /**
   * Looks whether the script is there.
   *
   * @param hint what else the caller could have meant, in words that go on after the message; empty
   *     if there is nothing to say
   * @throws BerthException INVALID if there is none that can be read
   */
  public void check(String hint) {
    if (!words.isEmpty() && !isCommand) {
      script(hint);
    }
  }

  /**
   * The file of the script.
   *
   * @throws BerthException INVALID if there is none that can be read
   */
  public Path script() {
    return script("");
  }

  private Path script(String hint) {
    String name = words.get(0);
    if (bundle.isEmpty()) {
      Path script = Path.of(name);
      checkScript(script, "there is no file " + script, hint);
      return script;
    }
    Path folder = bundle.get();
    if (Path.of(name).isAbsolute() || Path.of(name).normalize().startsWith("..")) {
      throw new BerthException(
          Reason.INVALID, "the script " + name + " must be named by its path below " + folder);
    }
    Path script = folder.resolve(name);
    checkScript(script, "there is no file " + name + " in the bundle " + folder, hint);
    if (isLeftOut(folder, Path.of(name).normalize())) {
      throw new BerthException(
          Reason.INVALID,
          "the script "
              + name
              + " is not uploaded: "
              + folder.resolve(IgnoreFile.NAME)
              + " leaves it out");
    }
    return script;
  }

  private static boolean isLeftOut(Path folder, Path script) {
    try {
      return IgnoreFile.of(folder).leavesOutFile(script);
    } catch (IOException e) {
      throw new BerthException(Reason.INVALID, "cannot read " + e.getMessage(), e);
    }
  }

  // Shells take the carriage return for a part of each line, and say anything but that.
  private void checkLineEnds(Path script) {
    try {
      List<String> runner = interpreter.isEmpty() ? firstLine(script) : interpreter;
      boolean forShell =
          runner.isEmpty()
              ? script.toString().endsWith(".sh")
              : runner.stream().anyMatch(word -> SHELL.matcher(word).find());
      if (forShell && hasWindowsLineEnds(script)) {
        throw new BerthException(
            Reason.INVALID,
            script
                + " has Windows line ends (CRLF), which shells do not understand; convert it with"
                + " 'dos2unix "
                + script
                + "'");
      }
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID, "the file " + script + " cannot be read: " + FileFailure.why(e), e);
    }
  }

  private static boolean hasWindowsLineEnds(Path script) throws IOException {
    try (InputStream in = new BufferedInputStream(Files.newInputStream(script))) {
      int before = 0;
      for (int next; (next = in.read()) >= 0 && next != '\n'; ) {
        before = next;
      }
      return before == '\r';
    }
  }

  private void checkScript(Path script, String otherwise, String hint) {
    if (!Files.isRegularFile(script)) {
      throw new BerthException(
          Reason.INVALID, (Files.isDirectory(script) ? script + " is a folder" : otherwise) + hint);
    }
    if (!Files.isReadable(script)) {
      throw new BerthException(Reason.INVALID, "the file " + script + " cannot be read");
    }
    checkLineEnds(script);
  }

  /** What the first line says runs the script, split as the kernel does: one argument at most. */
  public static List<String> firstLine(Path script) throws IOException {
    byte[] start;
    try (InputStream in = Files.newInputStream(script)) {
      start = in.readNBytes(MAX_FIRST_LINE);
    }
    String text = new String(start, StandardCharsets.UTF_8);
    if (!text.startsWith("#!")) {
      return List.of();
    }
    String line = text.substring(2).lines().findFirst().orElse("").trim();
    return line.isEmpty() ? List.of() : List.of(line.split("\\s+", 2));
  }
}
