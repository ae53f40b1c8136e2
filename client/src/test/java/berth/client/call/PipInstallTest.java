package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What the words before a program do in a shell; Python is played by another shell. */
class PipInstallTest {
  @TempDir private Path folder;
  private Path work;

  private record Ended(int exitCode, String out, String err) {}

  @BeforeEach
  void makeFolders() throws IOException {
    Files.createDirectory(folder.resolve("bin"));
    work = Files.createDirectory(folder.resolve("work"));
  }

  @Test
  void callsPipWithEachPackageAsOneWord() throws Exception {
    python("for word; do echo \"[$word]\"; done");

    Ended ended = run(List.of("numpy<2", "it's $HOME", "-r", "a b.txt"), Map.of(), "true");

    assertThat(ended.exitCode).isZero();
    assertThat(ended.out).isEmpty();
    assertThat(ended.err.lines())
        .containsExactly(
            "[-m]",
            "[pip]",
            "[install]",
            "[--quiet]",
            "[--no-input]",
            "[--disable-pip-version-check]",
            "[--target]",
            "[.berth-packages]",
            "[numpy<2]",
            "[it's $HOME]",
            "[-r]",
            "[a b.txt]");
  }

  @Test
  void callsPipWithAFileBesideTheCodeWhereverTheProgramWorks() throws Exception {
    python("shift 7; for word; do echo \"[$word]\"; done");

    Ended ended = run(List.of("numpy"), Optional.of("sub/it's.txt"), Map.of(), "true");

    assertThat(ended.err.lines())
        .containsExactly("[.berth-packages]", "[numpy]", "[-r]", "[" + work + "/sub/it's.txt]");
  }

  @Test
  void theProgramFindsThePackagesBeforeWhatItsPathHadAndTheirCommands() throws Exception {
    python(
        "mkdir -p .berth-packages/bin; echo 'echo $PYTHONPATH' >.berth-packages/bin/tool;"
            + " chmod +x .berth-packages/bin/tool");

    String packages = work.toRealPath() + "/.berth-packages";
    assertThat(run(List.of("a"), Map.of(), "tool").out).isEqualTo(packages + "\n");
    assertThat(run(List.of("a"), Map.of("PYTHONPATH", "/mine:/yours"), "tool").out)
        .isEqualTo(packages + ":/mine:/yours\n");
  }

  @Test
  void becomesTheProgramWithAllItsWords() throws Exception {
    python("");

    Ended ended =
        run(List.of("a"), Map.of(), "sh", "-c", "echo $$; echo \"$1\"; exit 7", "sh", "a  b'c");

    List<String> lines = ended.out.lines().toList();
    assertThat(ended.exitCode).isEqualTo(7);
    assertThat(lines.get(0)).isEqualTo(Files.readString(folder.resolve("pid")).trim());
    assertThat(lines.get(1)).isEqualTo("a  b'c");
  }

  @Test
  void saysWhatPipCouldNotInstallAndDoesNotStartTheProgram() throws Exception {
    python("[ \"$3\" = --version ] || { echo 'No matching distribution' >&2; exit 1; }");

    Ended ended = run(List.of("nope==1", "b"), Map.of(), "echo", "started");

    assertThat(ended.exitCode).isEqualTo(125);
    assertThat(ended.out).isEmpty();
    assertThat(ended.err)
        .isEqualTo("No matching distribution\nberth: pip could not install nope==1 b\n");
  }

  @Test
  void saysThatThereIsNoPip() throws Exception {
    python("echo 'No module named pip' >&2; exit 1");

    Ended ended = run(List.of("a"), Map.of(), "echo", "started");

    assertThat(ended.exitCode).isEqualTo(125);
    assertThat(ended.out).isEmpty();
    assertThat(ended.err).endsWith("berth: there is no pip for python3 here, to install a\n");
  }

  @Test
  void thatRootInstallsIsNoWarningUnlessItIsWanted() throws Exception {
    python("echo $PIP_ROOT_USER_ACTION");

    assertThat(run(List.of("a"), Map.of(), "true").err).isEqualTo("ignore\n");
    assertThat(run(List.of("a"), Map.of("PIP_ROOT_USER_ACTION", "warn"), "true").err)
        .isEqualTo("warn\n");
  }

  private void python(String script) throws IOException {
    Path python = folder.resolve("bin/python3");
    Files.writeString(python, "#!/bin/sh\n" + script + "\n");
    python.toFile().setExecutable(true);
  }

  private Ended run(List<String> packages, Map<String, String> env, String... program)
      throws Exception {
    return run(packages, Optional.empty(), env, program);
  }

  private Ended run(
      List<String> packages,
      Optional<String> requirements,
      Map<String, String> env,
      String... program)
      throws Exception {
    // A shell that writes down its process, which it then is no longer.
    List<String> words = new ArrayList<>(List.of("sh", "-c", "echo $$ >../pid; exec \"$@\"", "sh"));
    words.addAll(PipInstall.before(packages, requirements));
    words.addAll(List.of(program));
    ProcessBuilder builder =
        new ProcessBuilder(words)
            .directory(work.toFile())
            .redirectError(folder.resolve("err").toFile());
    builder.environment().remove("PYTHONPATH");
    builder.environment().put("BERTH_WORK", work.toString());
    builder.environment().put("PATH", folder.resolve("bin") + ":" + System.getenv("PATH"));
    builder.environment().putAll(env);
    Process process = builder.start();
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    return new Ended(process.waitFor(), out, Files.readString(folder.resolve("err")));
  }
}
