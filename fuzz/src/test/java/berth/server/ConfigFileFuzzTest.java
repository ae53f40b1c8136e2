package berth.server;

import static org.assertj.core.api.Assertions.assertThat;

import berth.command.CommandRunner;
import berth.command.DaemonOptions;
import berth.fuzz.Scratch;
import berth.fuzz.ShownText;
import berth.rpc.Address;
import berth.rpc.ExitCode;
import berth.server.reservation.PortOption;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.server.run.process.ProcessRuntime;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.provider.MethodSource;
import picocli.CommandLine.ExecutionException;
import picocli.CommandLine.Model.CommandSpec;

/**
 * A file of options for berthd, read and checked as far as berthd does before it opens anything.
 */
class ConfigFileFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final Path NOWHERE = Path.of("/nowhere/berth");
  private static final ProcessRuntime RUNTIME =
      new ProcessRuntime(id -> Runs.folder(NOWHERE, id), true);

  private record Outcome(int code, String said) {}

  static Stream<byte[]> seeds() throws IOException {
    return Stream.of(
            example(),
            """
            listen: "[::1]:0"
            http: none
            runtime: process
            allow-mount: /srv/a:ro,/srv/a/b:rw,/dev/shm/x
            port-range: 30000-30000
            supervisor-uids: 1000-1000
            registry: none
            label: a=,b==
            work-limit: 0k
            docker: tcp://127.0.0.1:2375
            advertise: "::1"
            """,
            "name: ${HOSTNAME:-a}\nlabel: ${sys:x}=\\${y}\nallow-root: true\n",
            "# nothing\n")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  /** All options at once, but for one of the two that exclude each other. */
  private static String example() throws IOException {
    Path root = Path.of(System.getProperty("berth.root"));
    return Files.readString(root.resolve("server/src/main/config/berthd.yaml"))
        .lines()
        .filter(line -> line.matches("#[a-z].*") && !line.startsWith("#nvml-library:"))
        .map(line -> line.substring(1) + "\n")
        .collect(Collectors.joining());
  }

  @Test
  void theExampleIsAccepted() throws IOException {
    assertThat(run(example().getBytes(StandardCharsets.UTF_8)))
        .isEqualTo(new Outcome(ExitCode.OK, ""));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isReadOrRefusedWithASentence(byte[] data) throws Exception {
    Outcome outcome = run(data);
    outcome.said.lines().forEach(line -> ShownText.check("the message", line));
    assertThat(outcome.code).isIn(ExitCode.OK, ExitCode.BERTH_FAILED);
    assertThat(outcome.said.isEmpty()).isEqualTo(outcome.code == ExitCode.OK);
    // Which is what is said of everything but a BerthException.
    assertThat(outcome.said).doesNotStartWith("berthd: unexpected: ");
  }

  private static Outcome run(byte[] data) throws IOException {
    Path file = Files.write(SCRATCH.empty().resolve("berthd.yaml"), data);
    BerthdCommand berthd = new BerthdCommand();
    StringWriter said = new StringWriter();
    int code =
        CommandRunner.run(
            berthd,
            line ->
                line.setErr(new PrintWriter(said, true))
                    .setExecutionStrategy(parsed -> check(berthd, parsed.commandSpec())),
            "--config",
            file.toString());
    return new Outcome(code, said.toString());
  }

  private static int check(BerthdCommand berthd, CommandSpec options) {
    try {
      return checkAll(berthd, options);
    } catch (RuntimeException e) {
      // As picocli itself does with what a command throws.
      throw new ExecutionException(options.commandLine(), e.toString(), e);
    }
  }

  // Nothing that asks the network: a name is looked up for seconds.
  private static int checkAll(BerthdCommand berthd, CommandSpec options) {
    String name = text(options, "--name").orElseGet(DaemonOptions::hostName);
    berthd.check();
    for (String option : List.of("--listen", "--http", "--advertise")) {
      text(options, option).ifPresent(text -> Address.parse(text, 1));
    }
    berthd.presence.registries();
    berthd.runs.engineSockets();
    PortOption.check(options.findOption("--port-range").getValue());
    Optional<Path> state = options.findOption("--state-dir").getValue();
    berthd.runs.settings(
        name, state.orElse(NOWHERE), berthd.reservations, Services.none(), RUNTIME);
    return ExitCode.OK;
  }

  private static Optional<String> text(CommandSpec options, String name) {
    return options.findOption(name).getValue();
  }
}
