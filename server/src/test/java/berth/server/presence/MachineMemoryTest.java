package berth.server.presence;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MachineMemoryTest {
  private static final long MIB = 1 << 20;

  @TempDir private Path folder;
  private MachineMemory memory;

  @BeforeEach
  void read() {
    memory = new MachineMemory(folder.resolve("meminfo"));
  }

  @Test
  void tellsWhatProgramsCouldGetRoundedDown() throws IOException {
    available(20_000 * MIB + MIB - 1024);

    assertThat(memory.total()).isEqualTo(32_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);
  }

  @Test
  void tellsOnlyChangesOfMoreThanA32ndOfAllMemory() throws IOException {
    available(20_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);

    available(19_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);
    available(21_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);
    available(18_999 * MIB);
    assertThat(memory.free()).isEqualTo(18_999 * MIB);
    available(19_500 * MIB);
    assertThat(memory.free()).isEqualTo(18_999 * MIB);
    available(20_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);
  }

  @Test
  void isUnknownWhereTheKernelDoesNotTell() throws IOException {
    assertThat(memory.total()).isZero();
    assertThat(memory.free()).isZero();

    available(20_000 * MIB);
    assertThat(memory.free()).isEqualTo(20_000 * MIB);
    write("MemTotal:       32768000 kB\nMemFree:         1000000 kB\n");

    assertThat(memory.free()).isZero();
  }

  private void available(long bytes) throws IOException {
    write(
        "MemTotal:       32768000 kB\nMemFree:         1000000 kB\nMemAvailable:   "
            + (bytes >> 10)
            + " kB\n");
  }

  private void write(String text) throws IOException {
    Files.writeString(folder.resolve("meminfo"), text);
  }
}
