package berth.cli;

import berth.client.call.Lines;

/** Makes lines of the two streams of one task. Not for several threads at once. */
final class TaskLines {
  // A program that never ends a line is shown all the same.
  private static final int LONGEST = 64 << 10;

  private final Lines out;
  private final Lines err;

  TaskLines(Lines.Reader out, Lines.Reader err) {
    this.out = new Lines(LONGEST, out);
    this.err = new Lines(LONGEST, err);
  }

  void add(boolean error, byte[] data) {
    (error ? err : out).add(data);
  }

  /** Passes on the lines that have no end. */
  void end() {
    out.end();
    err.end();
  }
}
