package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.RegistryClient;
import berth.client.cluster.Cleaning;
import berth.client.cluster.ClusterPlan;
import berth.client.cluster.ClusterPolicy;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterResult.Outcome;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.Planner;
import berth.client.cluster.RestartPolicy;
import berth.client.cluster.SuccessRule;
import berth.client.cluster.TaskGroup;
import berth.client.spec.IdleLimit;
import berth.client.spec.Warning;
import berth.fake.FakeRegistry;
import berth.rpc.Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/** What {@code berth cluster} makes of its command line. */
class ClusterCommandTest {
  @TempDir private Path folder;

  private Path script;
  private Path file;

  @BeforeEach
  void makeFiles() throws IOException {
    script = Files.writeString(folder.resolve("train.py"), "");
    file =
        Files.writeString(
            folder.resolve("mnist.yaml"),
            "image: a\ntime: 1h\nwait: 1m\nlayout: pack\nstop-grace: 7s\ntasks: {worker: }\n");
  }

  @Test
  void optionsMakeACluster() {
    ClusterRequest request =
        parse(
            "run --ps 2 --workers 4 --gpus 1 --chief --evaluator --tensorboard --logdir /logs"
                + " --service tf --bundle FOLDER -e A=1 --memory 8g --ps-memory 2g --label room=b12"
                + " --pack --wait 5m --time 2h --name study --pip keras --pip tuner -v /data:/d:ro"
                + " --interpreter 'python3 -u' train.py --epochs 3 --gpus 7");

    assertThat(request)
        .isEqualTo(
            ClusterRequest.named("study")
                .all(
                    run ->
                        run.service("tf")
                            .files(folder)
                            .env("A", "1")
                            .label("room", "b12")
                            .pip(List.of("keras", "tuner"))
                            .mount("/data", "/d", true)
                            .interpreter(List.of("python3", "-u"))
                            .script("train.py", "--epochs", "3", "--gpus", "7"))
                .task("chief", 1, run -> run.gpus(1).memory("8g"))
                .task("worker", 4, run -> run.gpus(1).memory("8g"))
                .task("ps", 2, run -> run.memory("2g"))
                .task("evaluator", 1, run -> run.memory("8g"))
                .task(
                    "tensorboard",
                    1,
                    run ->
                        run.command(
                            "python3",
                            "-m",
                            "tensorboard.main",
                            "--logdir",
                            "/logs",
                            "--host",
                            "{host}",
                            "--port",
                            "{port}"))
                .layout(ClusterRequest.Layout.PACK)
                .waitAtMost(Duration.ofMinutes(5))
                .timeLimit(Duration.ofHours(2))
                .build());
  }

  @Test
  void optionsSayHowItIsKeptAlive() {
    ClusterRequest request =
        parse(
            "run --workers 2 --ps 1 --restart on-failure --max-restarts 5 --restart-scope cluster"
                + " --success chief --clean all --ttl 1h --time 8h --signal USR1@60 --resubmit 2"
                + " --checkpoints /nfs/a --idle 5%@30m SCRIPT");

    assertThat(request.policy())
        .isEqualTo(
            new ClusterPolicy(
                5,
                true,
                ClusterPolicy.USUAL.restartPause(),
                SuccessRule.CHIEF,
                Cleaning.ALL,
                Optional.of(Duration.ofHours(1)),
                Optional.of(new Warning("USR1", Duration.ofSeconds(60))),
                2,
                "/nfs/a"));
    assertThat(request.groups())
        .extracting(TaskGroup::restart)
        .containsOnly(RestartPolicy.ON_FAILURE);
    assertThat(request.groups().get(0).run().limits().idle())
        .contains(new IdleLimit(5, Duration.ofMinutes(30)));
    assertThat(request.groups().get(1).run().limits().idle()).isEmpty();
    assertThat(parse("run FILE --keep --detach").policy().cleaning()).isEqualTo(Cleaning.NONE);
  }

  @Test
  void fewOptionsSuffice() {
    ClusterRequest request = parse("run --workers 2 SCRIPT");

    assertThat(request.name()).isEqualTo("train");
    assertThat(request.layout()).isEqualTo(ClusterRequest.Layout.SPREAD);
    assertThat(request.waitAtMost()).isEmpty();
    assertThat(request.timeLimit()).isEmpty();
    assertThat(request.groups()).singleElement().extracting(TaskGroup::instances).isEqualTo(2);
    assertThat(request.groups().get(0).gpuCount()).isZero();
    assertThat(parse("run --workers 2 -g all --no-wait SCRIPT").waitAtMost())
        .contains(Duration.ZERO);
    assertThat(parse("run --workers 2 -g all SCRIPT").groups().get(0).gpuCount()).isEqualTo(-1);
    assertThat(parse("run --chief --image a").name()).isEqualTo("cluster");
  }

  @Test
  void aCommandFollowsDashes() {
    ClusterRequest request = parse("run --workers 1 -- /bin/echo.sh {task_index} x.yaml");

    assertThat(request.name()).isEqualTo("echo");
    assertThat(request.groups().get(0).run().program().isCommand()).isTrue();
    assertThat(request.groups().get(0).run().program().words())
        .containsExactly("/bin/echo.sh", "{task_index}", "x.yaml");
    assertThat(parse("run --workers 1 -- x.yaml").groups().get(0).run().program().words())
        .containsExactly("x.yaml");
  }

  @Test
  void parameterServersHaveTheMemoryOfTheOthersUnlessTheirOwnIsSaid() {
    ClusterRequest request = parse("run --workers 1 --ps 1 --memory 3g --tensorboard SCRIPT");

    assertThat(request.groups())
        .extracting(group -> group.run().limits().memoryBytes())
        .containsExactly(3L << 30, 3L << 30, 0L);
  }

  @ParameterizedTest
  @ValueSource(strings = {"run", "plan"})
  void aFileMakesAClusterToo(String verb) {
    ClusterRequest request = parse(verb + " FILE");

    assertThat(request)
        .isEqualTo(
            ClusterRequest.named("mnist")
                .task("worker", 1, run -> run.image("a"))
                .timeLimit(Duration.ofHours(1))
                .waitAtMost(Duration.ofMinutes(1))
                .stopGrace(Duration.ofSeconds(7))
                .layout(ClusterRequest.Layout.PACK)
                .build());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "run --name other --time 2h --no-wait -q --json --no-logs FILE",
        "run FILE --name other --time 2h --wait 0s --log-dir x",
        "run --name other FILE --time 2h --wait 0s --quiet --registry none",
      })
  void optionsBeforeAndAfterAFileOverruleIt(String line) {
    ClusterRequest request = parse(line);

    assertThat(request.name()).isEqualTo("other");
    assertThat(request.timeLimit()).contains(Duration.ofHours(2));
    assertThat(request.waitAtMost()).contains(Duration.ZERO);
    assertThat(request.stopGrace()).isEqualTo(Duration.ofSeconds(7));
    assertThat(request.layout()).isEqualTo(ClusterRequest.Layout.PACK);
  }

  @Test
  void helpMayBeAskedForAfterAFile() {
    CommandLine berth = parsed("run FILE --help");
    CommandLine run = command(berth, "run");

    assertThat(options(run).helpAsked(run.getCommandSpec())).isTrue();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "run --workers 2 FILE | FILE defines the cluster: leave out --workers",
        "run FILE --gpus 1 --ps 1 | FILE defines the cluster: leave out --gpus, --ps",
        "run --pack FILE | FILE defines the cluster: leave out --pack",
        "run -s tf FILE | FILE defines the cluster: leave out --service",
        "run --label a=b FILE | FILE defines the cluster: leave out --label",
        "plan -e A=1 --pip x FILE | FILE defines the cluster: leave out --env, --pip",
        "run FILE train | FILE is a cluster file, which takes no arguments such as 'train'",
        "run FILE -- train | FILE is a cluster file, which takes no arguments such as 'train'",
        "run FILE --nope | Unknown option: '--nope'",
        "run --restart always FILE | FILE defines the cluster: leave out --restart",
        "run --keep --clean all FILE | Error: --clean=WHAT, --keep are mutually exclusive (specify"
            + " only one)",
        "run --workers 1 --restart Never SCRIPT | Invalid value for option '--restart': 'Never' is"
            + " none of never, on-failure, exit-code, always",
        "run | no tasks: use --workers N, --chief, or a cluster file (.yaml)",
        "run SCRIPT | no tasks: use --workers N, --chief, or a cluster file (.yaml)",
        "run --ps 1 SCRIPT | no tasks: use --workers N, --chief, or a cluster file (.yaml)",
        "run --workers 2 | nothing to run: give a script, or a command after --",
        "run --workers 2 --logdir x SCRIPT | --logdir requires --tensorboard",
        "run --workers -1 SCRIPT | 'worker' asks for -1 instances; at least one is needed",
        "run --workers 2 none.py | there is no file none.py; to run a command of the image, put it"
            + " after --",
        "run --workers 2 --bundle FOLDER none.py | there is no file none.py in the bundle FOLDER;"
            + " to run a command of the image, put it after --",
        "run none.yaml | there is no cluster file none.yaml",
        "run --name 'a b' FILE | 'a b' is not the name of a cluster: letters, digits, and . _ -"
            + " only",
        "run --workers 1 --memory 8 SCRIPT | Invalid value for option '--memory': '8' is not"
            + " an amount of memory such as 512m or 20g",
        "run --workers 1 --time 0s SCRIPT | Invalid value for option '--time': '0s' must be more"
            + " than 0",
        "run --workers 1 --wait 1m --no-wait SCRIPT | Error: --wait=DURATION, --no-wait are"
            + " mutually exclusive (specify only one)",
        "run --workers 1 --pack --spread SCRIPT | Error: --spread, --pack are mutually exclusive"
            + " (specify only one)",
        "run --log-dir x --no-logs FILE | Error: --log-dir=DIR, --no-logs are mutually exclusive"
            + " (specify only one)",
      },
      quoteCharacter = '"')
  void saysWhatIsWrong(String line, String message) {
    assertThatThrownBy(() -> parse(line)).hasMessage(filled(message));
  }

  @Test
  void aPlanSaysWhoIsWhere() {
    ClusterRequest request =
        parse("plan --workers 2 --ps 1 --evaluator --gpus 2 --service tf --name x -- train");
    try (FakeRegistry registry = new FakeRegistry();
        RegistryClient client = RegistryClient.of(List.of(registry.address()))) {
      registry.servers =
          List.of(
              server("gpu1", "10.0.0.1", 2), server("gpu2", "10.0.0.2", 4), server("x", "::1", 0));
      ClusterPlan plan = Planner.place(request, client.servers());
      ClusterSpec spec = ClusterPlanCommand.withoutPorts(plan);

      String text = ClusterPlanCommand.text(request, plan, spec);
      assertThat(text.lines().map(String::stripTrailing))
          .startsWith("TASK         SERVER  GPUS  ADDRESS")
          .contains(
              "worker:0     gpu2    2     10.0.0.2:0", "worker:1     gpu1    2     10.0.0.1:0")
          .contains("cluster.json", spec.json(), "cluster.csv", "10.0.0.2,0,worker")
          .containsSubsequence("TF_CONFIG of worker:1", spec.tfConfig(SampleCluster.WORKER_1));
      assertThat(ClusterJson.plan(request, plan, spec))
          .startsWith(
              "{\"name\":\"x\",\"tasks\":[{\"task\":\"worker:0\",\"server\":\"gpu2\","
                  + "\"address\":\"10.0.0.2:0\",\"gpus\":2,\"tfConfig\":{\"cluster\":{\"worker\":"
                  + "[\"10.0.0.2:0\",\"10.0.0.1:0\"],")
          .contains("\"cluster\":" + spec.json() + ",\"csv\":\"10.0.0.2,0,worker\\n");
    }
  }

  @ParameterizedTest
  @CsvSource({
    "SUCCEEDED, 0, 0, 0",
    "FAILED, 3, 3, 3",
    "TIME_LIMIT, 3, 124, 124",
    "CANCELLED, 0, 125, 130",
    "CANCELLED, 143, 143, 130",
  })
  void theExitCodeIsTheClustersUnlessASignalEndedIt(
      Outcome outcome, int task, int expected, int afterCtrlC) {
    ClusterResult result =
        SampleCluster.result(outcome, "", SampleCluster.finished(SampleCluster.CHIEF, task));

    assertThat(ClusterRunCommand.exitCode(result, OptionalInt.empty())).isEqualTo(expected);
    assertThat(ClusterRunCommand.exitCode(result, OptionalInt.of(130))).isEqualTo(afterCtrlC);
  }

  private static berth.v1.Server server(String name, String host, int gpus) {
    berth.v1.Server.Builder server =
        FakeRegistry.server(name, new Address(host, 18812), gpus, gpus).toBuilder();
    server
        .getInfoBuilder()
        .setMemoryBytes(64L << 30)
        .addServices(berth.v1.Service.newBuilder().setName("TF"));
    return server.build();
  }

  private ClusterRequest parse(String line) {
    CommandLine command = command(parsed(line), line.split(" ")[0]);
    ClusterOptions options = options(command);
    assertThat(options.helpAsked(command.getCommandSpec())).isFalse();
    return options.request(command.getCommandSpec());
  }

  private CommandLine parsed(String line) {
    List<String> words = new ArrayList<>(List.of("cluster"));
    for (String word : line.split(" (?=(?:[^']*'[^']*')*[^']*$)")) {
      words.add(filled(word).replace("'", ""));
    }
    CommandLine berth = new CommandLine(new BerthCommand());
    berth.parseArgs(words.toArray(String[]::new));
    return berth;
  }

  private String filled(String text) {
    return text.replace("FILE", file.toString())
        .replace("SCRIPT", script.toString())
        .replace("FOLDER", folder.toString());
  }

  private static CommandLine command(CommandLine berth, String verb) {
    return berth.getSubcommands().get("cluster").getSubcommands().get(verb);
  }

  private static ClusterOptions options(CommandLine command) {
    return (ClusterOptions) command.getCommandSpec().mixins().get("options").userObject();
  }
}
