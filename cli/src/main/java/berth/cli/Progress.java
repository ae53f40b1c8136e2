package berth.cli;

import berth.rpc.PlainText;
import java.io.PrintStream;

/**
 * What a person sees while waiting: one line that is redrawn on a terminal, else a line each. Any
 * thread may call.
 */
final class Progress {
  private static final String ERASE = "\r\033[K";
  // A line that wraps could not be erased; few windows are narrower.
  private static final int WIDTH = 79;

  private final PrintStream out;
  private final boolean redrawn;
  private String shown = "";

  Progress(PrintStream out, boolean redrawn) {
    this.out = out;
    this.redrawn = redrawn;
  }

  boolean redrawn() {
    return redrawn;
  }

  /** Shows a text until something else is shown. */
  synchronized void show(String unclean) {
    String text = PlainText.clean(unclean);
    if (text.equals(shown)) {
      return;
    }
    shown = text;
    if (redrawn) {
      String more = Terminal.showsUnicode() ? "…" : "...";
      out.print(
          ERASE
              + (text.length() <= WIDTH ? text : text.substring(0, WIDTH - more.length()) + more));
      out.flush();
    } else {
      out.println("berth: " + text);
    }
  }

  /** Takes the line away from a terminal. */
  synchronized void erase() {
    if (redrawn && !shown.isEmpty()) {
      out.print(ERASE);
      out.flush();
    }
    shown = "";
  }

  /** Says something that stays. */
  void note(String text) {
    print("berth: " + PlainText.clean(text) + System.lineSeparator());
  }

  /** Prints whole lines that stay. */
  synchronized void print(String lines) {
    String line = shown;
    erase();
    out.print(PlainText.cleanLines(lines));
    out.flush();
    if (redrawn && !line.isEmpty()) {
      show(line);
    }
  }
}
