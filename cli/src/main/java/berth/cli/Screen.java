package berth.cli;

import berth.rpc.ExitCode;
import berth.rpc.PlainText;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Shows something that changes: in place on a terminal, else one state below the other. For one
 * thread.
 */
final class Screen {
  private static final String ENTER = "\033[?1049h\033[?25l\033[?7l";
  private static final String LEAVE = "\033[?7h\033[?25h\033[?1049l";
  private static final String HOME = "\033[H";
  private static final String CLEAR_LINE = "\033[K";
  private static final String CLEAR_REST = "\033[J";

  private final Terminal terminal;
  private final SeparatedOutput blocks = new SeparatedOutput();
  private final AtomicBoolean left = new AtomicBoolean();
  private String shown = "";

  Screen(Terminal terminal) {
    this.terminal = terminal;
    if (terminal.interactive()) {
      System.out.print(ENTER);
      Runtime.getRuntime().addShutdownHook(new Thread(this::leave));
    }
  }

  /** Whether what is shown replaces what was shown before. */
  boolean redraws() {
    return terminal.interactive();
  }

  /** Shows some whole lines. */
  void show(String unclean) {
    String frame = PlainText.cleanLines(unclean);
    shown = frame;
    if (terminal.interactive()) {
      redraw(frame, terminal.rows());
    } else {
      blocks.print(frame);
    }
    endIfNobodyReads();
  }

  /** Says that nothing else will be shown, so that a person keeps seeing the last frame. */
  void end() {
    if (terminal.interactive()) {
      leave();
      System.out.print(shown);
      System.out.flush();
    }
  }

  // Once: a second time would move the cursor.
  private void leave() {
    if (!left.getAndSet(true)) {
      System.out.print(LEAVE);
      System.out.flush();
    }
  }

  // `berth gpus --watch | head` ends here.
  static void endIfNobodyReads() {
    if (System.out.checkError()) {
      System.exit(ExitCode.OK);
    }
  }

  private static void redraw(String frame, int rows) {
    List<String> lines = new ArrayList<>(frame.lines().toList());
    if (lines.size() > rows) {
      int hidden = lines.size() - rows + 1;
      lines = new ArrayList<>(lines.subList(0, rows - 1));
      lines.add("... " + hidden + " more lines: make the window higher");
    }
    StringBuilder screen = new StringBuilder(HOME);
    for (int i = 0; i < lines.size(); i++) {
      screen.append(i == 0 ? "" : "\n").append(lines.get(i)).append(CLEAR_LINE);
    }
    System.out.print(screen.append(CLEAR_REST));
    System.out.flush();
  }
}
