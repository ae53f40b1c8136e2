package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.ProgramDelivery;
import berth.client.call.RunClient;
import berth.fake.FakeRuns;
import berth.fake.Upload;
import berth.rpc.Messages;
import berth.v1.Entrypoint;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.ListServicesResponse;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.Service;
import berth.v1.UserId;
import berth.v1.WaitTime;
import berth.v1.WarningSignal;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

/** What {@code berth run} makes of its command line. */
class RunCommandTest {
  private static final ListServicesResponse TENSORFLOW =
      ListServicesResponse.newBuilder()
          .addServices(Service.newBuilder().setName("TF").addInterpreter("service-python"))
          .build();

  @TempDir private Path folder;

  @Test
  void leavesTheOptionsOfAScriptToTheScript() throws Exception {
    RunCodeRequest request =
        parse("--gpus", "2", script("train.py", ""), "--gpus", "7", "--", "-d", "--help");

    assertThat(request.getCommandList()).containsExactly("--gpus", "7", "--", "-d", "--help");
    assertThat(request.getSource().getFileName()).isEqualTo("train.py");
    assertThat(request.getGpus()).isEqualTo(GpuRequest.newBuilder().setCount(2).build());
    assertThat(request.getWait()).isEqualTo(WaitTime.newBuilder().setForever(true).build());
    assertThat(request.getDetached()).isFalse();
  }

  @Test
  void takesNoGpuUnlessAsked() throws Exception {
    RunCodeRequest request = parse("--image", "busybox:1.35", "--", "nproc", "--all");

    assertThat(request.hasGpus()).isFalse();
    assertThat(request.hasWait()).isFalse();
    assertThat(request.hasSource()).isFalse();
    assertThat(request.getCommandList()).containsExactly("nproc", "--all");
    assertThat(parse("--gpus", "0", "--image", "x").hasGpus()).isFalse();
  }

  @Test
  void passesEveryOptionOn() throws Exception {
    Path variables =
        Files.writeString(folder.resolve("env"), "# ours\n\nA=file\nB=x=y\nNOT_SET_ANYWHERE\n");
    RunCodeRequest request =
        parse(
            "--gpu=0,GPU-b --min-memory 20g --model A100 --wait 10m --service TensorFlow --time 2h"
                + " --signal SIGUSR1@90 --idle 5%@30m --stop-grace 30s --memory 8g --cpus 1.5"
                + " --processes 100 --shm 1g -e A=option -e PATH -e NOT_SET_ANYWHERE --mount /data"
                + " --mount /a:/b:ro --user 1000:100 --network host --workdir sub --output m/*.h5"
                + " -o log --entrypoint tini,-- --ports 2 --name study --request-id r1 -d"
                + " --env-file "
                + variables
                + " -- run me");

    assertThat(request.getGpus())
        .isEqualTo(
            GpuRequest.newBuilder()
                .setExactly(GpuSet.newBuilder().addIds("0").addIds("GPU-b"))
                .setMinFreeMemoryBytes(20L << 30)
                .setModel("A100")
                .build());
    assertThat(request.getWait().getAtMost()).isEqualTo(duration(600));
    assertThat(request.getService()).isEqualTo("TensorFlow");
    assertThat(request.getLimits())
        .isEqualTo(
            Limits.newBuilder()
                .setTime(duration(7200))
                .setWarning(WarningSignal.newBuilder().setSignal("USR1").setBefore(duration(90)))
                .setIdle(IdleLimit.newBuilder().setBelowPercent(5).setTime(duration(1800)))
                .setStopGrace(duration(30))
                .setMemoryBytes(8L << 30)
                .setCpus(1.5)
                .setProcesses(100)
                .setSharedMemoryBytes(1L << 30)
                .build());
    assertThat(request.getEnvMap())
        .isEqualTo(Map.of("A", "option", "B", "x=y", "PATH", System.getenv("PATH")));
    assertThat(request.getMountsList())
        .containsExactly(
            Mount.newBuilder().setSource("/data").build(),
            Mount.newBuilder().setSource("/a").setTarget("/b").setReadOnly(true).build());
    assertThat(request.getUser()).isEqualTo(UserId.newBuilder().setUid(1000).setGid(100).build());
    assertThat(request.getNetwork()).isEqualTo(Network.NETWORK_HOST);
    assertThat(request.getWorkingDir()).isEqualTo("sub");
    assertThat(request.getOutputsList()).containsExactly("m/*.h5", "log");
    assertThat(request.getEntrypoint())
        .isEqualTo(Entrypoint.newBuilder().addWords("tini,--").build());
    assertThat(request.getPortCount()).isEqualTo(2);
    assertThat(request.getName()).isEqualTo("study");
    assertThat(request.getRequestId()).isEqualTo("r1");
    assertThat(request.getDetached()).isTrue();
    assertThat(request.getOwner()).isEqualTo(berth.client.call.ThisUser.owner());
  }

  @Test
  void runsAsMe() throws Exception {
    UserId me = parse("--as-me", "--image", "x").getUser();

    assertThat(me.getUid()).isEqualTo((int) Files.getAttribute(folder, "unix:uid"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        // script | content | options | interpreter of the source
        "a.py | x | | python3 -u",
        "a.sh | x | | sh",
        "a.py | #!/usr/bin/pypy | | ''",
        "a.py | x | --service tf | ''",
        "a.py | x | --image i | python3 -u",
        "a.R | x | --interpreter Rscript | Rscript",
        "a.py | #!x | --interpreter python3 --service tf | python3",
      })
  void choosesTheInterpreterOfASource(
      String name, String content, String options, String interpreter) throws Exception {
    List<String> words = new ArrayList<>();
    if (options != null) {
      words.addAll(List.of(options.split(" ")));
    }
    words.add(script(name, content));

    RunCodeRequest request = parse(words.toArray(String[]::new));

    assertThat(String.join(" ", request.getSource().getInterpreterList())).isEqualTo(interpreter);
    assertThat(request.getSource().getContent().toStringUtf8()).isEqualTo(content);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "sub/a.py | x | | python3 -u sub/a.py --lr 1",
        "a.py | #!/usr/bin/env python3 | | /usr/bin/env python3 a.py --lr 1",
        "a.py | #!/bin/other | --service tf | service-python a.py --lr 1",
        "a.py | x | --interpreter 'pypy' | pypy a.py --lr 1",
      },
      quoteCharacter = '"')
  void aScriptInABundleIsNamedInTheCommand(
      String name, String content, String options, String command) throws Exception {
    script(name, content);
    List<String> words = new ArrayList<>(List.of("--bundle", folder.toString()));
    if (options != null) {
      words.addAll(List.of(options.replace("'", "").split(" ")));
    }
    words.addAll(List.of(name, "--lr", "1"));

    RunCodeRequest request = parse(words.toArray(String[]::new));

    assertThat(request.hasSource()).isFalse();
    assertThat(String.join(" ", request.getCommandList())).isEqualTo(command);
  }

  @Test
  void aFirstLineGivesAtMostOneArgumentAsInTheKernel() throws Exception {
    script("a.py", "#! /usr/bin/env -S python3 -u \nx");

    assertThat(parse("--bundle", folder.toString(), "a.py").getCommandList())
        .containsExactly("/usr/bin/env", "-S python3 -u", "a.py");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "none.py | there is no file none.py; to run a command of the image, put it after --",
        "--bundle /tmp no/none.py | there is no file no/none.py in the bundle /tmp; to run a"
            + " command of the image, put it after --",
        "--bundle /tmp ../x.py | the script ../x.py must be named by its path below /tmp",
        "/ | / is a folder; to run a command of the image, put it after --",
        "/dev/null | there is no file /dev/null; to run a command of the image, put it after --",
        "--signal USR1@60 -- x | --signal requires --time",
        "--model A100 -- x | --min-memory and --model require --gpus N",
        "--reservation r-1 --gpus 1 -- x | --reservation cannot be combined with --gpus, --gpu or"
            + " --ports",
        "--quiet | nothing to run: give a script, or a command after --",
        "--mount data -- x | 'data' is not SRC[:DST][:ro] with absolute paths, for example"
            + " /data:/data:ro",
        "--signal USR1 -- x | 'USR1' is not a signal and a time, such as USR1@60 or USR1@2m",
        "--signal FOO@3 -- x | 'FOO' is not a supported signal: use one of HUP, INT, QUIT, USR1,"
            + " USR2, TERM, CONT, ALRM, WINCH",
        "--signal USR1@0 -- x | the signal USR1 must come before the time limit",
        "--idle 5@30m -- x | '5@30m' is not a percentage and a time, such as 5%@30m",
        "--pip numpy --image x | --pip and --requirements require a script, or a command after --",
        "--idle 5%@30 -- x | '30' is not a duration such as 30s, 10m or 1h30m",
        "--idle 5%@500ms -- x | an idle limit of 500 ms asked; it must be a second or more",
        "--idle 101%@30m -- x | an idle limit of 101 % asked; it must be from 1 to 100",
        "--idle 0%@30m -- x | an idle limit of 0 % asked; it must be from 1 to 100",
        "--gpus -1 -- x | number of GPUs must not be negative: -1 (use 'all' for all)",
        "--user me -- x | 'me' is not UID or UID:GID, such as 1000:100",
        "--network lan -- x | 'lan' is not own, host or none",
        "-e =x -- x | --env '=x': expected K=V or K",
        "--env-file /none -- x | --env-file /none: cannot read file",
        "--service a --image b -- x | --service=NAME, --image=IMAGE are mutually exclusive",
      })
  void saysWhatIsWrong(String arguments, String message) {
    assertThatThrownBy(() -> parse(arguments.split(" "))).message().contains(message);
  }

  @Test
  void packagesAreInstalledBeforeTheScript() throws Exception {
    Path requirements = Files.writeString(folder.resolve("needed.txt"), "scipy\n");

    RunCodeRequest request =
        parse(
            "-s",
            "TF",
            "--pip",
            "numpy<2",
            "--requirements",
            requirements.toString(),
            script("train.py", ""),
            "x");

    List<String> words = request.getSource().getInterpreterList();
    assertThat(words).startsWith("sh", "-c").endsWith("berth-pip", "service-python");
    assertThat(words.get(2))
        .contains("pip install", "'numpy<2' -r \"$BERTH_WORK\"/'.berth-requirements/needed.txt'");
    assertThat(request.getFilesMap())
        .isEqualTo(Map.of(".berth-requirements/needed.txt", ByteString.copyFromUtf8("scipy\n")));
    assertThat(request.getCommandList()).containsExactly("x");
    // Lists show it by what it is, rather than by how pip is called.
    assertThat(request.getName()).endsWith("train.py x");
  }

  @Test
  void packagesAreInstalledBeforeACommand() throws Exception {
    RunCodeRequest request =
        parse("--image", "python:3.12", "--pip", "numpy", "--", "pytest", "-x");

    assertThat(request.getCommandList()).startsWith("sh", "-c").endsWith("pytest", "-x");
    assertThat(request.getFilesMap()).isEmpty();
  }

  @Test
  void aFileOfRequirementsThatIsNotThereIsNamed() throws Exception {
    Path missing = folder.resolve("none.txt");
    String script = script("train.py", "");

    assertThatThrownBy(() -> parse("--requirements", missing.toString(), script))
        .hasMessage("cannot read the requirements " + missing + ": No such file or directory");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "train.sh | echo a",
        "train | #!/bin/sh",
        "train.py | #!/usr/bin/env bash",
        "train | #!/usr/bin/env -S bash -e",
      })
  void aShellScriptWithWindowsLineEndsIsRefused(String name, String firstLine) throws Exception {
    String script = script(name, firstLine + "\r\necho b\r\n");

    assertThatThrownBy(() -> parse("--image", "x", script))
        .hasMessage(
            script
                + " has Windows line ends (CRLF), which shells do not understand; convert it with"
                + " 'dos2unix "
                + script
                + "'");
  }

  @Test
  void otherScriptsMayHaveWindowsLineEnds() throws Exception {
    assertThat(parse("--image", "x", script("a.py", "print()\r\n")).hasSource()).isTrue();
    assertThat(parse("--image", "x", script("b", "#!/usr/bin/python3\r\n")).hasSource()).isTrue();
    assertThat(parse("--image", "x", script("c.sh", "echo '\r'\n")).hasSource()).isTrue();
    assertThat(parse("--image", "x", "--interpreter", "perl", script("d.sh", "1;\r\n")).hasSource())
        .isTrue();
  }

  @Test
  void outputsThatCannotBeWrittenAreRefusedBeforeTheRun() throws Exception {
    String file = script("file", "");

    assertThatThrownBy(() -> parse("-o", "m", "--output-dir", file + "/a/b", "--image", "x"))
        .hasMessage(
            "cannot write to "
                + file
                + ": Not a directory; choose another folder with --output-dir");
    parse("-o", "m", "--output-dir", folder + "/a/b", "--image", "x");
  }

  @Test
  void saysThatAScriptWithoutAnInterpreterNeedsOne() throws Exception {
    String script = script("a.R", "x");

    assertThatThrownBy(() -> parse(script))
        .hasMessage(
            "no interpreter for "
                + script
                + ": name one, or use a service that has one, a #! line, or the extension .py or"
                + " .sh");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "-s shell train.sh --gpus 1 --time=2h x --gpus 2 | warning: --gpus, --time after train.sh"
            + " goes to the script, not to berth; options of berth come before the script",
        "-s shell | no script or command given: running the image's own command",
        "-s shell train.sh --epochs 3 -s 4 | ",
        "-s shell train.sh -- --gpus 3 | ",
        "-s shell -- train.sh --gpus 3 | ",
      })
  void pointsOutWhatMayBeAMistake(String arguments, String note) {
    assertThat(command(arguments.split(" ")).notes())
        .isEqualTo(note == null ? List.of() : List.of(note));
  }

  private static RunCommand command(String... arguments) {
    List<String> words = new ArrayList<>(List.of("run"));
    words.addAll(arguments.length == 1 ? List.of(arguments[0].split(" ")) : List.of(arguments));
    CommandLine berth = new CommandLine(new BerthCommand());
    berth.parseArgs(words.toArray(String[]::new));
    return berth.getSubcommands().get("run").getCommand();
  }

  private RunCodeRequest parse(String... arguments) throws IOException {
    RunCommand run = command(arguments);
    RunCodeRequest.Builder request = run.request();
    try (FakeRuns server = new FakeRuns();
        RunClient client = RunClient.of(server.address());
        ProgramDelivery program = run.delivery()) {
      server.onUpload = answer -> new Upload(answer, true);
      program.complete(request, client, () -> TENSORFLOW, UnaryOperator.identity());
    }
    return request.build();
  }

  private String script(String name, String content) throws IOException {
    Path script = folder.resolve(name);
    Files.createDirectories(script.getParent());
    return Files.writeString(script, content).toString();
  }

  private static com.google.protobuf.Duration duration(long seconds) {
    return Messages.duration(Duration.ofSeconds(seconds));
  }
}
