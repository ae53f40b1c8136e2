package berth.client.call;

import java.util.Arrays;

/** Cuts bytes, which come in pieces of any size, into lines. Not for several threads at once. */
public final class Lines {
  private static final int LONGEST_CHARACTER = 4;

  /** Gets the lines. */
  public interface Reader {
    /**
     * @param line without its end
     * @param ended whether it has one; else it is the last line, or part of one that is too long
     */
    void line(byte[] line, boolean ended);
  }

  private final int longest;
  private final Reader reader;
  private byte[] begun = new byte[256];
  private int size;

  /** Cuts at the ends of lines alone. */
  public Lines(Reader reader) {
    this(Integer.MAX_VALUE, reader);
  }

  /**
   * Cuts also what is too long, but no character of UTF-8.
   *
   * @param longest most bytes of a line; at least one character
   */
  public Lines(int longest, Reader reader) {
    this.longest = Math.max(LONGEST_CHARACTER, longest);
    this.reader = reader;
  }

  /** Takes the next bytes. */
  public void add(byte[] bytes) {
    int start = 0;
    for (int i = 0; i < bytes.length; i++) {
      if (bytes[i] == '\n') {
        begin(bytes, start, i);
        pass(size, true);
        start = i + 1;
      }
    }
    begin(bytes, start, bytes.length);
  }

  /** Passes on what has no end. */
  public void end() {
    if (size > 0) {
      pass(size, false);
    }
  }

  private void begin(byte[] bytes, int from, int to) {
    int start = from;
    while (to - start > longest - size) {
      int fits = longest - size;
      append(bytes, start, fits);
      start += fits;
      pass(wholeCharacters(), false);
    }
    append(bytes, start, to - start);
  }

  private void append(byte[] bytes, int from, int count) {
    if (count > begun.length - size) {
      begun = Arrays.copyOf(begun, Math.max(size + count, begun.length * 2));
    }
    System.arraycopy(bytes, from, begun, size, count);
    size += count;
  }

  private void pass(int count, boolean ended) {
    byte[] line = Arrays.copyOf(begun, count);
    System.arraycopy(begun, count, begun, 0, size - count);
    size -= count;
    reader.line(line, ended);
  }

  /** How many bytes there are without the last character, if that is not whole. */
  private int wholeCharacters() {
    int last = size - 1;
    while (last > size - LONGEST_CHARACTER && (begun[last] & 0xc0) == 0x80) {
      last--;
    }
    int lead = begun[last] & 0xff;
    int length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return length > size - last && last > 0 ? last : size;
  }
}
