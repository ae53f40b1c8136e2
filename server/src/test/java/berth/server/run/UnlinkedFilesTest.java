package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Of real processes. */
class UnlinkedFilesTest {
  private static final int MEBIBYTE = 1 << 20;

  @TempDir private Path folder;

  @Test
  void countsWhatIsOpenAndHasNoName() throws Exception {
    assertThat(bytes("exec 3>a; rm a; head -c 3m /dev/zero >&3"))
        .isBetween(3L * MEBIBYTE, 4L * MEBIBYTE);
  }

  @Test
  void countsAFileOnceHoweverOftenItIsOpen() throws Exception {
    assertThat(bytes("exec 3>a 4>>a; rm a; head -c 3m /dev/zero >&3; exec 5>&3"))
        .isBetween(3L * MEBIBYTE, 4L * MEBIBYTE);
  }

  @Test
  void countsNoHolesNorWhatIsInMemoryNorWhatHasAName() throws Exception {
    assertThat(
            bytes(
                "exec 3>a; rm a; truncate -s 1g /proc/self/fd/3;"
                    + " m=/dev/shm/berth-test-$$; exec 4>$m; rm $m; head -c 3m /dev/zero >&4;"
                    + " exec 5>b; head -c 3m /dev/zero >&5;"
                    + " exec 6>'c (deleted)'; head -c 3m /dev/zero >&6"))
        .isLessThan(MEBIBYTE);
  }

  @Test
  void countsNothingElsewhereNorOfOneThatHasEnded() throws Exception {
    Process process = holding("exec 3>a; rm a; head -c 3m /dev/zero >&3");
    List<Integer> pids = List.of((int) process.pid());
    String here = folder.toRealPath() + "/";
    assertThat(UnlinkedFiles.bytes(pids, name -> !name.startsWith(here))).isZero();
    assertThat(UnlinkedFiles.bytes(pids, name -> name.startsWith(here))).isPositive();
    process.destroyForcibly().waitFor();
    assertThat(UnlinkedFiles.bytes(pids, name -> true)).isZero();
  }

  private long bytes(String script) throws Exception {
    Process process = holding(script);
    try {
      return UnlinkedFiles.bytes(List.of((int) process.pid()), name -> true);
    } finally {
      process.destroyForcibly().waitFor();
    }
  }

  /** A process that has done that, and waits. */
  private Process holding(String script) throws IOException {
    Process process =
        new ProcessBuilder("bash", "-ec", script + "; echo done; read -r line")
            .directory(folder.toFile())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    BufferedReader out = process.inputReader();
    assertThat(out.readLine()).isEqualTo("done");
    return process;
  }
}
