package berth.e2e.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.OptionalInt;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** That a {@link Soak} notices what is wrong with the output of its programs. */
class PrintedTest {
  private static List<String> lines(String run, int from, int to) {
    return IntStream.rangeClosed(from, to)
        .mapToObj(number -> run + " " + number + " " + ".".repeat(40))
        .toList();
  }

  private static Journal journal(int lines, OptionalInt end) {
    return new Journal("run-1", 1, "gpu01", List.of(), "c1", "worker:0", lines, end);
  }

  @Test
  void theLinesOfSeveralRunsMayBeMixed() {
    Printed printed =
        Printed.of(
            List.of(
                "[worker:0] " + lines("run-1", 1, 1).get(0),
                "[ps:0]     " + lines("run-2", 1, 1).get(0),
                "[worker:0] " + lines("run-1", 2, 2).get(0)));

    assertThat(printed.problems()).isEmpty();
    assertThat(printed.counts()).containsEntry("run-1", 2).containsEntry("run-2", 1);
  }

  @Test
  void noticesLinesThatAreMissingOrComeTwiceOrAreCut() {
    List<String> missing =
        Stream.concat(lines("run-1", 1, 2).stream(), lines("run-1", 4, 5).stream()).toList();
    List<String> twice =
        Stream.concat(lines("run-1", 1, 2).stream(), lines("run-1", 2, 3).stream()).toList();

    assertThat(Printed.of(missing).problems())
        .containsExactly("line 4 of run-1 comes after line 2");
    assertThat(Printed.of(twice).problems()).containsExactly("line 2 of run-1 comes after line 2");
    assertThat(Printed.of(lines("run-1", 2, 3)).problems())
        .containsExactly("line 2 of run-1 comes after line 0");
    assertThat(Printed.of(lines("run-1", 2, 3), true).problems()).isEmpty();
    assertThat(Printed.of(missing, true).problems()).hasSize(1);
    assertThat(Printed.of(List.of("run-1 1 ...")).problems())
        .containsExactly("'run-1 1 ...' was never printed");
  }

  @Test
  void noticesAnEndThatIsMissing() {
    Printed printed = Printed.of(lines("run-1", 1, 20));

    assertThat(printed.compare(journal(20, OptionalInt.of(0)), true)).isEmpty();
    assertThat(printed.compare(journal(30, OptionalInt.of(0)), true))
        .containsExactly("20 lines of run-1 were read, it printed 30 and ended with 0");
    assertThat(printed.compare(journal(30, OptionalInt.of(0)), false)).isEmpty();
    assertThat(printed.compare(journal(10, OptionalInt.of(0)), true)).hasSize(1);
    assertThat(printed.compare(journal(10, OptionalInt.empty()), true)).isEmpty();
    assertThat(printed.compare(journal(0, OptionalInt.empty()), false)).hasSize(1);
  }
}
