package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class DiskUseTest {
  @TempDir private Path folder;

  @Test
  void countsWhatIsInAFolder() throws Exception {
    Files.write(folder.resolve("file"), new byte[1 << 20]);
    assertThat(DiskUse.below(folder).orElseThrow()).isBetween(1L << 20, 2L << 20);
    assertThat(DiskUse.below(folder.resolve("missing"))).isEmpty();
  }

  @Test
  void whatTakesTooLongIsGivenUp() throws Exception {
    Path pid = folder.resolve("pid");
    assertThat(
            DiskUse.below(
                List.of("sh", "-c", "echo $$ > " + pid + "; exec sleep 1000"),
                Duration.ofSeconds(1)))
        .isEmpty();
    ProcessHandle.of(Long.parseLong(Files.readString(pid).strip()))
        .ifPresent(process -> process.onExit().join());
  }
}
