package berth.command;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CommandRunnerTest {
  private static final String HINT = "Try 'sample --help'.";

  private final StringWriter err = new StringWriter();
  private Callable<Integer> work = () -> ExitCode.OK;
  private SampleCommand command;
  @TempDir private Path directory;

  @Test
  void theMessageOfAServerCannotMoveTheCursorOrForgeALine() {
    work =
        () -> {
          throw new BerthException(Reason.UNAVAILABLE, "no\n\033[2Jberth: done\u009b\u202e");
        };
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err.toString()).isEqualTo("sample: no??[2Jberth: done??\n");

    err.getBuffer().setLength(0);
    assertThat(run("--stacktrace")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err.toString().lines())
        .contains("berth.rpc.BerthException: no\\n\\u001b[2Jberth: done\\u009b\\u202e")
        .noneMatch(line -> line.contains("\033"));
  }

  @Test
  void takesTheDefaultsWithoutAFile() {
    assertThat(run()).isEqualTo(ExitCode.OK);
    assertThat(command.listen).isEqualTo("127.0.0.1:18812");
    assertThat(command.interval).isEqualTo(Duration.ofSeconds(2));
    assertThat(command.insecure).isFalse();
  }

  @ParameterizedTest
  @ValueSource(strings = {"--config=", "--config "})
  void takesFromTheFileWhatTheCommandLineLeavesOut(String option) {
    Path file =
        file("# how we run", "listen: '[::1]:7'", "interval: 5m", "gpus: 3", "insecure: true");

    assertThat(run((option + file).split(" "))).isEqualTo(ExitCode.OK);

    assertThat(command.listen).isEqualTo("[::1]:7");
    assertThat(command.interval).isEqualTo(Duration.ofMinutes(5));
    assertThat(command.gpus).isEqualTo(3);
    assertThat(command.insecure).isTrue();
    assertThat(command.config).isEqualTo(file);
  }

  @Test
  void theCommandLineWinsOverTheFile() {
    runWith(file("gpus: 3", "listen: gpu01:7"), "--gpus", "4");
    assertThat(command.gpus).isEqualTo(4);
    assertThat(command.listen).isEqualTo("gpu01:7");
  }

  @ParameterizedTest
  @CsvSource({
    "true, --insecure, true",
    "false, --insecure, true",
    "true, --gpus=1, true",
    "false, --gpus=1, false",
  })
  void aFlagMeansTheSameWhateverTheFileSays(String inFile, String argument, boolean insecure) {
    runWith(file("insecure: " + inFile), argument);
    assertThat(command.insecure).isEqualTo(insecure);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "# nothing yet"})
  void anEmptyFileChangesNothing(String text) {
    assertThat(runWith(file(text))).isEqualTo(ExitCode.OK);
    assertThat(command.listen).isEqualTo("127.0.0.1:18812");
  }

  @ParameterizedTest
  @ValueSource(strings = {"gpu", "config", "stacktrace", "help", "l", "''"})
  void refusesAKeyThatIsNoOptionForAFile(String key) {
    Path file = file("listen: gpu01", key + ": 1");
    assertThat(runWith(file)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: %s:2: unknown key '%s'; known keys: gpus, here, insecure, interval,"
                + " label, listen, there\n",
            file, key.replace("'", ""));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "listen: gpu02 | 2: 'listen' is given twice",
        "gpus: [1, 2] | 2: 'gpus' takes a single value",
        "gpus: {a: 1} | 2: 'gpus' takes a single value",
        "[gpus]: 1 | 2: a key must be text",
        "gpus: 'three | 3: not YAML: found unexpected end of stream",
      })
  void refusesAFileThatIsWrongAndSaysWhere(String line, String why) {
    Path file = file("listen: gpu01", line);
    assertThat(runWith(file)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err).hasToString("sample: " + file + ":" + why + "\n");
  }

  @Test
  void refusesAFileThatIsNoMapping() {
    Path file = file("- listen");
    assertThat(runWith(file)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString("sample: " + file + ":1: expected lines of the form 'option: value'\n");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "gpus: three | 'three' is not an int",
        "gpus: | '' is not an int",
        "interval: 2 | '2' is not a duration such as 30s, 10m or 1h30m",
        "insecure: maybe | 'maybe' is not a boolean",
      })
  void refusesAValueInTheFileThatIsWrongAndSaysWhere(String line, String why) {
    Path file = file("listen: gpu01", line);
    assertThat(runWith(file)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: %s:2: Invalid value for option '--%s': %s\n%s\n",
            file, line.substring(0, line.indexOf(':')), why, HINT);
  }

  @Test
  void blamesTheCommandLineForItsOwnWrongValue() {
    assertThat(runWith(file("gpus: 3"), "--gpus", "three")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: Invalid value for option '--gpus': 'three' is not an int\n%s\n", HINT);
  }

  @Test
  void saysThatTheFileIsMissing() {
    Path missing = directory.resolve("missing.yaml");
    assertThat(runWith(missing)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err).hasToString("sample: there is no configuration file " + missing + "\n");
  }

  @Test
  void saysThatTheFileCannotBeRead() {
    assertThat(runWith(directory)).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: cannot read the configuration file " + directory + ": Is a directory\n");
  }

  @Test
  void refusesAnUnknownOptionInOneLineAndAHint() {
    assertThat(run("--nope")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err).hasToString("sample: Unknown option: '--nope'\n" + HINT + "\n");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--here --there | --here, --there are mutually exclusive",
        "--label room | Invalid value for option '--label': 'room' is not KEY=VALUE",
      })
  void namesWrongPairsAndOptionsThatExcludeEachOther(String words, String why) {
    assertThat(run(words.split(" "))).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err).hasToString("sample: " + why + "\n" + HINT + "\n");
  }

  @Test
  void anUnknownCommandIsNamedWithTheOneThatWasMeant() {
    assertThat(runGroup("frobnicate")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(runGroup("drian")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            """
            sample: unknown command 'frobnicate'
            Try 'sample --help'.
            sample: unknown command 'drian'; did you mean 'drain'?
            Try 'sample --help'.
            """);
  }

  private int runGroup(String... args) {
    return CommandRunner.run(
        new SampleCommand(work),
        line ->
            line.addSubcommand("drain", new SampleCommand(work))
                .addSubcommand("generate-completion", new SampleCommand(work))
                .setErr(new PrintWriter(err, true)),
        args);
  }

  @Test
  void passesOnTheExitCodeOfTheWork() {
    work = () -> 42;
    assertThat(run()).isEqualTo(42);
  }

  @Test
  void anExpectedFailureIsOneLine() {
    work = failing(new BerthException(Reason.EXHAUSTED, "3 GPUs asked, 2 idle"));
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err).hasToString("sample: 3 GPUs asked, 2 idle\n");
  }

  @Test
  void anUnexpectedFailureIsOneLine() {
    work = failing(new IllegalStateException("on fire"));
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: unexpected: java.lang.IllegalStateException: on fire (--stacktrace shows"
                + " where)\n");
  }

  @Test
  void aFullDiskIsASentence() {
    work = failing(new IOException("No space left on device"));
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    work =
        failing(
            new UncheckedIOException(
                new FileSystemException("model.h5", null, "No space left on device")));
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: No space left on device\nsample: model.h5: No space left on device\n");
  }

  @Test
  void anErrorOfTheVirtualMachineIsOneLineToo() {
    work =
        () -> {
          throw new UnsatisfiedLinkError("no nvidia-ml");
        };
    assertThat(run()).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err)
        .hasToString(
            "sample: unexpected: java.lang.UnsatisfiedLinkError: no nvidia-ml"
                + " (--stacktrace shows where)\n");
  }

  @Test
  void showsTheStackTraceOnRequest() {
    work = failing(new IOException("disk on fire"));
    assertThat(run("--stacktrace")).isEqualTo(ExitCode.BERTH_FAILED);
    assertThat(err.toString())
        .startsWith("java.io.IOException: disk on fire\n")
        .contains("\tat " + CommandRunnerTest.class.getName());
  }

  private int runWith(Path config, String... args) {
    return run(
        Stream.concat(Stream.of("--config=" + config), Stream.of(args)).toArray(String[]::new));
  }

  private int run(String... args) {
    command = new SampleCommand(work);
    return CommandRunner.run(command, line -> line.setErr(new PrintWriter(err, true)), args);
  }

  private Path file(String... lines) {
    try {
      return Files.write(directory.resolve("sample.yaml"), List.of(lines));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Callable<Integer> failing(Exception failure) {
    return () -> {
      throw failure;
    };
  }
}
