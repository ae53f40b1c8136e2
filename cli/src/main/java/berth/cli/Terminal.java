package berth.cli;

import berth.rpc.PlainText;
import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * What a stream of this process can show.
 *
 * @param interactive whether a person sees it at once, so that it may be redrawn
 */
record Terminal(boolean interactive, boolean colours) {
  private static final int DEFAULT_ROWS = 24;

  static Terminal ofThisProcess() {
    boolean interactive = System.console() != null && !"dumb".equals(System.getenv("TERM"));
    return new Terminal(interactive, interactive && System.getenv("NO_COLOR") == null);
  }

  /** What standard output (1) or standard error (2) alone can show. */
  static Terminal of(int descriptor) {
    boolean interactive = shows(descriptor);
    return new Terminal(interactive, interactive && System.getenv("NO_COLOR") == null);
  }

  /** Whether a person sees standard error; the console that Java knows is that of the others. */
  static boolean showsErrors() {
    return shows(2);
  }

  /** Whether the caller's locale has more than ASCII: what is drawn for people keeps to it. */
  static boolean showsUnicode() {
    return showsUnicode(System.getProperty("berth.callerLcAll"), Charset.defaultCharset());
  }

  /**
   * @param callerLcAll what the start script replaced, because it was not UTF-8; null if nothing
   * @param own the characters of this process
   */
  static boolean showsUnicode(String callerLcAll, Charset own) {
    return callerLcAll == null && own.equals(StandardCharsets.UTF_8);
  }

  private static boolean shows(int descriptor) {
    try {
      String target = Files.readSymbolicLink(Path.of("/proc/self/fd/" + descriptor)).toString();
      return (target.startsWith("/dev/pts/") || target.startsWith("/dev/tty"))
          && !"dumb".equals(System.getenv("TERM"));
    } catch (IOException e) {
      return false;
    }
  }

  // Everything that this command says passes through the next three, Progress or Screen, which
  // clean
  // it: servers, their messages and names may be anybody's. Only what programs print is passed on
  // as it is.

  /** Says something on standard error. */
  static void note(String text) {
    System.err.println("berth: " + PlainText.clean(text));
  }

  /** Prints a line on standard output. */
  static void line(String text) {
    System.out.println(PlainText.clean(text));
  }

  /** Prints whole lines, such as a table, on standard output. */
  static void print(String lines) {
    System.out.print(PlainText.cleanLines(lines));
  }

  /** The height now; people resize windows. */
  int rows() {
    try {
      Process stty =
          new ProcessBuilder("stty", "size")
              .redirectInput(ProcessBuilder.Redirect.INHERIT)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      String size = new String(stty.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
      stty.waitFor(1, TimeUnit.SECONDS);
      return Math.max(2, Integer.parseInt(size.trim().split(" ")[0]));
    } catch (IOException | NumberFormatException e) {
      return DEFAULT_ROWS;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return DEFAULT_ROWS;
    }
  }
}
