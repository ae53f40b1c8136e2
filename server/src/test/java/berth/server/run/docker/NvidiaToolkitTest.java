package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NvidiaToolkitTest {
  @TempDir private Path folder;

  @ParameterizedTest
  @CsvSource({
    "nvidia-ctk, NVIDIA Container Toolkit CLI version 1.17.8, 1.17.8, true",
    "nvidia-ctk, NVIDIA Container Toolkit CLI version 1.17.7, 1.17.7, false",
    "nvidia-ctk, NVIDIA Container Toolkit CLI version 1.18.0-rc.1, 1.18.0, true",
    "nvidia-ctk, NVIDIA Container Toolkit CLI version 2.0.0, 2.0.0, true",
    "nvidia-ctk, NVIDIA Container Toolkit CLI version 1.9.12, 1.9.12, false",
    "nvidia-container-cli, cli-version: 1.17.8, 1.17.8, true",
    "nvidia-container-cli, cli-version: 1.13.5, 1.13.5, false",
    "nvidia-container-runtime, NVIDIA Container Runtime version 1.14.6, 1.14.6, false",
  })
  void saysItsVersionAndWhetherThatHasKnownHoles(
      String program, String says, String version, boolean safe) throws IOException {
    program(program, "echo '" + says + "'; echo 'commit: 99999.99999.99999'");
    NvidiaToolkit toolkit = NvidiaToolkit.find("/nowhere:" + folder).orElseThrow();
    assertThat(toolkit.version()).contains(version);
    assertThat(toolkit.isSafe()).isEqualTo(safe);
    assertThat(toolkit.description())
        .isEqualTo(
            "NVIDIA container toolkit "
                + version
                + (safe
                    ? ""
                    : ": UNSAFE, an image may become root on the host; upgrade to 1.17.8 or"
                        + " later"));
  }

  @Test
  void oneThatDoesNotSayItsVersionIsNotTrusted() throws IOException {
    program("nvidia-container-runtime-hook", "exit 0");
    program("nvidia-ctk", "echo no; exit 1");
    NvidiaToolkit toolkit = NvidiaToolkit.find(folder.toString()).orElseThrow();
    assertThat(toolkit).isEqualTo(new NvidiaToolkit(Optional.empty()));
    assertThat(toolkit.description()).contains("of an unknown version: UNSAFE");
  }

  @Test
  void isNotThereWhereNoProgramOfItIs() {
    assertThat(NvidiaToolkit.find(folder + ":relative:")).isEmpty();
  }

  private void program(String name, String script) throws IOException {
    Path file = Files.writeString(folder.resolve(name), "#!/bin/sh\n" + script + "\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
  }
}
