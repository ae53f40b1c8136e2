package berth.e2e.runs;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Heard;
import java.nio.charset.StandardCharsets;

/** A program that counts on both of its streams, so that every byte that is missing is missed. */
final class Counting {
  private static final int LINES = 300;

  private final int bursts;

  /**
   * @param bursts how many times it writes about 20 KB to each stream
   */
  Counting(int bursts) {
    this.bursts = bursts;
  }

  /** For any shell that has awk. */
  String script() {
    return script(bursts, "sleep 0.05");
  }

  /** The same without an end. */
  static String endless() {
    return script(Integer.MAX_VALUE, "echo $i >/work/new; mv /work/new /work/written; sleep 0.02");
  }

  private static String script(int bursts, String afterEach) {
    return "i=0; while [ $i -lt "
        + bursts
        + " ]; do awk -v i=$i 'BEGIN { for (j = i * "
        + LINES
        + "; j < (i + 1) * "
        + LINES
        + "; j++) { printf \"out %060d\\n\", j; printf \"err %060d\\n\", j >\"/dev/stderr\" } }';"
        + " i=$((i + 1)); "
        + afterEach
        + "; done";
  }

  /** Bytes of both streams together. */
  long bytes() {
    return 2L * bursts * LINES * line("out", 0).length();
  }

  /** Checks that all of it came, each byte once and in order. */
  void assertHeard(Heard heard) {
    assertStream(heard.out(), "out", bursts);
    assertStream(heard.err(), "err", bursts);
  }

  /** Checks that so many bursts came at least, and that nothing is missing before the end. */
  static void assertHeardAtLeast(Heard heard, int bursts) {
    for (String stream : new String[] {"out", "err"}) {
      byte[] bytes = stream.equals("out") ? heard.out() : heard.err();
      int all = bytes.length / line(stream, 0).length();
      assertThat(all).isGreaterThanOrEqualTo(bursts * LINES);
      String text = new String(bytes, StandardCharsets.UTF_8);
      assertThat(text.equals(lines(stream, all + 1).substring(0, text.length()))).isTrue();
    }
  }

  private static void assertStream(byte[] bytes, String stream, int bursts) {
    String expected = lines(stream, bursts * LINES);
    assertThat(bytes.length).isEqualTo(expected.length());
    assertThat(new String(bytes, StandardCharsets.UTF_8).equals(expected)).isTrue();
  }

  private static String lines(String stream, int count) {
    StringBuilder text = new StringBuilder();
    for (int line = 0; line < count; line++) {
      text.append(line(stream, line));
    }
    return text.toString();
  }

  private static String line(String stream, int number) {
    return String.format("%s %060d%n", stream, number);
  }
}
