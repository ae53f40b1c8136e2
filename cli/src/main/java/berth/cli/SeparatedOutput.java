package berth.cli;

/** Prints one part below the other, with an empty line in between. */
final class SeparatedOutput {
  private boolean began;

  void print(String part) {
    Terminal.print((began ? "\n" : "") + part);
    began = true;
  }
}
