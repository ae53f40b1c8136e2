package berth.cli;

import berth.client.cluster.TaskName;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** The name of a task before each line that it prints: {@code [worker:1] text}. */
final class LinePrefix {
  // No red, which people take for errors, and nothing that is hard to read on white or on black.
  private static final int[] COLOURS = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};
  private static final byte[] RESET = "\033[0m".getBytes(StandardCharsets.US_ASCII);
  private static final char ESCAPE = '\033';

  private final byte[] plain;
  private final byte[] coloured;

  /**
   * @param width of the longest name, so that all lines begin in the same column
   * @param number of the task among all, which chooses its colour
   */
  LinePrefix(TaskName task, int width, int number) {
    String name = "[" + task + "]";
    String blanks = " ".repeat(width - task.toString().length() + 1);
    plain = (name + blanks).getBytes(StandardCharsets.US_ASCII);
    coloured =
        ("\033[" + COLOURS[number % COLOURS.length] + "m" + name + "\033[0m" + blanks)
            .getBytes(StandardCharsets.US_ASCII);
  }

  /** A whole line for {@code terminal}, which goes to {@code to}. */
  void write(byte[] text, Terminal terminal, ByteArrayOutputStream to) {
    byte[] prefix = terminal.colours() ? coloured : plain;
    to.writeBytes(prefix);
    boolean escapes = false;
    for (int i = 0; i < text.length; i++) {
      to.write(text[i]);
      escapes |= text[i] == ESCAPE;
      // A progress bar that begins its line anew would overwrite the name.
      if (text[i] == '\r' && terminal.interactive() && i < text.length - 1) {
        to.writeBytes(prefix);
      }
    }
    // A colour that the program left on is not for the lines of others.
    if (escapes && terminal.colours()) {
      to.writeBytes(RESET);
    }
    to.write('\n');
  }
}
