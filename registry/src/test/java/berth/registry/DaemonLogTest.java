package berth.registry;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class DaemonLogTest {
  private static final String TIME = "20\\S+T\\S+ ";

  @Test
  void noTextOfOthersMakesALineOfItsOwn() throws Exception {
    List<String> lines = linesOf(LoggingSample.class);
    assertThat(lines).noneMatch(line -> line.contains("\033"));
    assertThat(lines.stream().filter(line -> !line.startsWith("\t")))
        .satisfiesExactly(
            line ->
                assertThat(line)
                    .matches(
                        TIME
                            + "INFO berthd - r-1 accepted from ann\\\\n"
                            + "2026-01-01T00:00:00.000Z INFO berthd forged \\{}\\\\u001b\\[2J"),
            line -> assertThat(line).matches(TIME + "WARN berthd - failed"),
            line -> assertThat(line).isEqualTo("java.lang.IllegalStateException: x\\n\\tat forged"),
            line -> assertThat(line).isEqualTo("Caused by: java.lang.Exception: y\\nforged cause"),
            line -> assertThat(line).matches(TIME + "WARN library - from a library\\\\nforged"),
            line ->
                assertThat(line).matches(TIME + "ERROR DaemonLog - the thread worker has ended"),
            line ->
                assertThat(line).isEqualTo("java.lang.IllegalStateException: uncaught\\nforged"));
    assertThat(lines).doesNotContain("\tat forged");
  }

  private static List<String> linesOf(Class<?> main) throws Exception {
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                main.getName())
            .redirectErrorStream(true)
            .start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor()).isZero();
    return output.lines().toList();
  }
}
