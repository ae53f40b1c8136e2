package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The first way that an engine has is taken. */
class GpuAccessTest {
  @TempDir private Path folder;
  private Path programs;
  private Path specifications;

  @BeforeEach
  void make() throws IOException {
    programs = Files.createDirectory(folder.resolve("bin"));
    specifications = Files.createDirectory(folder.resolve("cdi"));
  }

  @Test
  void theHookOnTheEnginesPathComesFirst() throws IOException {
    Path hook = Files.createFile(programs.resolve("nvidia-container-runtime-hook"));
    assertThat(hook.toFile().setExecutable(true)).isTrue();

    assertThat(find(Map.of("nvidia", "", "runc", ""))).isEqualTo(GpuAccess.DEVICE_REQUESTS);
  }

  @Test
  void thenTheRuntimeOfThatName() throws IOException {
    Files.createFile(programs.resolve("nvidia-container-runtime-hook"));

    assertThat(find(Map.of("nvidia", "", "runc", ""))).isEqualTo(GpuAccess.NVIDIA_RUNTIME);
  }

  @Test
  void thenASpecificationOfGpus() throws IOException {
    Files.writeString(specifications.resolve("other.yaml"), "kind: vendor.com/nic");
    assertThat(find(Map.of("runc", ""))).isEqualTo(GpuAccess.NONE);

    Files.writeString(specifications.resolve("nvidia.yaml"), "kind: nvidia.com/gpu");
    assertThat(find(Map.of("runc", ""))).isEqualTo(GpuAccess.CDI);
  }

  @Test
  void anEngineWithoutAnyIsToldWhatItLacks() {
    assertThat(find(Map.of())).isEqualTo(GpuAccess.NONE);
    assertThat(GpuAccess.NONE.description()).contains("nvidia-container-toolkit");
  }

  private GpuAccess find(Map<String, ?> runtimes) {
    return GpuAccess.find(
        runtimes, "/nowhere::" + programs, List.of(folder.resolve("none"), specifications));
  }
}
