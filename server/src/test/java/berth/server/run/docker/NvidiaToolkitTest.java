package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import berth.host.lock.KernelFiles;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
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
    NvidiaToolkit toolkit = find("/nowhere:" + folder).orElseThrow();
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
    NvidiaToolkit toolkit = find(folder.toString()).orElseThrow();
    assertThat(toolkit).isEqualTo(new NvidiaToolkit(Optional.empty()));
    assertThat(toolkit.description()).contains("of an unknown version: UNSAFE");
  }

  @Test
  void isNotThereWhereNoProgramOfItIs() {
    assertThat(find(folder + ":relative:")).isEmpty();
  }

  /** The path is what another process has in its environment, which may be anybody's. */
  @Test
  void nothingIsExecutedThatIsNotInAFolderOfTheSystem() throws IOException {
    Path called = folder.resolve("called");
    program("nvidia-container-runtime-hook", "exit 0");
    program("nvidia-ctk", "echo version 1.17.8; : >" + called);
    Path system = Files.createDirectory(folder.resolve("system"));
    for (List<Path> folders : List.of(List.of(system), List.<Path>of())) {
      assertThat(NvidiaToolkit.find(folder.toString(), folders))
          .contains(new NvidiaToolkit(Optional.empty()));
    }
    assertThat(called).doesNotExist();
  }

  @Test
  void nothingIsExecutedThatOthersThanRootCanChange() throws IOException {
    Path called = folder.resolve("called");
    program("nvidia-ctk", "echo version 1.17.8; : >" + called);
    Path program = folder.resolve("nvidia-ctk");
    for (String mode : List.of("rwxrwxr-x", "rwxr-xrwx")) {
      Files.setPosixFilePermissions(program, PosixFilePermissions.fromString(mode));
      assertThat(find(folder.toString())).as(mode).isEmpty();
    }
    Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwxr-xr-x"));
    Files.setAttribute(program, "unix:uid", 65534);
    assertThat(find(folder.toString())).isEmpty();
    Files.setAttribute(program, "unix:uid", 0);
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
    assertThat(find(folder.toString())).isEmpty();
    assertThat(called).doesNotExist();
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx------"));
    assertThat(find(folder.toString())).isPresent();
    assertThat(called).exists();
  }

  @BeforeEach
  void needsRoot() {
    assumeTrue(KernelFiles.isRoot(), "needs root");
  }

  private Optional<NvidiaToolkit> find(String path) {
    return NvidiaToolkit.find(path, List.of(folder));
  }

  private void program(String name, String script) throws IOException {
    Path file = Files.writeString(folder.resolve(name), "#!/bin/sh\n" + script + "\n");
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
  }
}
