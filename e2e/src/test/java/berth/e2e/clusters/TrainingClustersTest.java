package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.clusters.ShownCluster.End;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.TinyWheel;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Clusters on three machines, by the installed {@code berth}: the examples, with TensorFlow and
 * PyTorch in containers, and what can happen to a cluster, with tasks that are cheaper.
 */
@Tag("docker")
@ExtendWith(ClusterMachines.Shared.class)
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class TrainingClustersTest {
  private static final Path EXAMPLES =
      Path.of(System.getProperty("berth.root"), "examples/clusters");
  private static final Duration PATIENCE = Duration.ofMinutes(4);
  private static final String STOPPED = "stopped when the training was over";
  // As small as four digits can show it: the programs themselves want less than 0.01.
  private static final String SMALL_LOSS = "loss 0\\.00\\d\\d";

  private static ClusterMachines machines;
  @TempDir private Path folder;
  private Path logs;
  private Path shared;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(ClusterMachines started) {
    machines = started;
  }

  @BeforeEach
  void makeFolders() throws IOException {
    logs = folder.resolve("logs");
    shared = Files.createTempDirectory(machines.shared(), "test");
    // Programs in the images are other users.
    Files.setPosixFilePermissions(shared, PosixFilePermissions.fromString("rwxrwxrwx"));
  }

  @AfterEach
  void leavesNothing() {
    machines.assertNothingLeft();
  }

  @Test
  void parameterServersTrainOnThreeMachinesWhileAnEvaluatorLooksAtTheCheckpoints()
      throws IOException {
    // The example with a folder that all servers share, and as much time as a busy machine needs.
    String example =
        example("parameter_server.yaml")
            .replace("/tmp/model", "/model")
            .replace("evaluator-grace: 10s", "evaluator-grace: 3m");

    ShownCluster shown = run(example + "mounts: ['" + shared + ":/model']\n");

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.printed("chief:0"))
        .singleElement()
        .asString()
        .matches(SMALL_LOSS + " after 4 epochs");
    assertThat(shown.printed("evaluator:0"))
        .last()
        .asString()
        .matches("evaluated " + SMALL_LOSS + " after 4 epochs");
    assertThat(shown.printed("ps:1"))
        .containsExactly("ps 1 serves at " + shown.addresses().get("ps:1"));
    assertThat(shown.servers()).containsExactlyInAnyOrder("gpu01", "gpu02", "gpu03");
    Map<String, End> ends = shown.ends();
    assertThat(ends.keySet())
        .containsExactly("chief:0", "worker:0", "worker:1", "ps:0", "ps:1", "evaluator:0");
    for (String task : List.of("chief:0", "evaluator:0")) {
      assertThat(ends.get(task).exit()).isEqualTo("0");
      assertThat(ends.get(task).why()).isEqualTo("finished");
    }
    for (String task : List.of("worker:0", "worker:1", "ps:0", "ps:1")) {
      assertThat(ends.get(task).exit()).isEqualTo("143");
      assertThat(ends.get(task).why()).isEqualTo(STOPPED);
    }
    assertThat(shown.lastWord()).matches("berth: parameter-server succeeded after \\d+.*");
    assertThat(logs.resolve("chief-0.log"))
        .content()
        .isEqualTo(shown.printed("chief:0").get(0) + "\n");
  }

  @Test
  void mirroredWorkersOnTwoMachinesAgree() {
    ShownCluster shown = runExample("mirrored.yaml");

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.servers()).hasSize(2);
    assertThat(shown.printed("worker:0"))
        .singleElement()
        .asString()
        .matches(SMALL_LOSS + " on 2 replicas");
    assertThat(shown.printed("worker:1")).isEqualTo(shown.printed("worker:0"));
  }

  @Test
  void aProgramForTensorFlow1IsToldItsPlaceByFlags() {
    ShownCluster shown = runExample("classic.yaml");

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.servers()).hasSize(3);
    for (int i = 0; i < 2; i++) {
      assertThat(shown.printed("worker:" + i))
          .singleElement()
          .asString()
          .matches(SMALL_LOSS + " at worker " + i);
    }
    assertThat(shown.ends().get("ps:0").why()).isEqualTo(STOPPED);
  }

  @Test
  void pyTorchTrainsOnTwoMachines() {
    ShownCluster shown = runExample("torch_ddp.yaml");

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.servers()).hasSize(2);
    for (int i = 0; i < 2; i++) {
      assertThat(shown.printed("worker:" + i))
          .singleElement()
          .asString()
          .matches(SMALL_LOSS + " at rank " + i + " of 2");
    }
  }

  @Test
  void aTrainingThatDoesNotLearnFailsAndStopsTheOthers() throws IOException {
    String example = example("torch_ddp.yaml").replace("torch_ddp.py", "torch_ddp.py --steps=1");

    ShownCluster shown = run(example + "  ps: " + busybox("exec sleep 1000") + "\n");

    assertThat(shown.exitCode()).as(shown.err()).isEqualTo(1);
    assertThat(shown.err()).contains("it has not learned: the loss ");
    // Both fail; the other one may have been stopped before it could.
    assertThat(shown.lastWord())
        .matches(
            "berth: torch-ddp failed after \\d+s: worker:[01] on gpu0\\d ended with exit code 1");
    assertThat(shown.ends().values()).anyMatch(end -> end.why().equals("exit code 1"));
    assertThat(shown.ends().get("ps:0").why()).isEqualTo("cancelled");
    assertThat(shown.ends().get("ps:0").exit()).isEqualTo("143");
  }

  /**
   * The numbers are those of the usual example of Kubeflow's TFJob; {@code master} is its chief.
   */
  @ParameterizedTest
  @ValueSource(strings = {"chief", "master"})
  void everyTaskFindsTheClusterInAVariableAndInAFile(String chief) throws IOException {
    ShownCluster shown =
        run(
            all("echo $TF_CONFIG; cat .cluster/tf_config.json; echo; cat .cluster/cluster.csv")
                + chief
                + ": {gpus: 1}\n  ps: {}\n  worker: {instances: 2, gpus: 1}\n");

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    Map<String, String> at = shown.addresses();
    assertThat(at.values())
        .doesNotHaveDuplicates()
        .allMatch(a -> a.matches("10\\.77\\.0\\.[123]:\\d+"));
    List<String> printed = shown.printed("worker:1");
    assertThat(json(printed.get(0)))
        .isEqualTo(
            json(
                """
                {
                  "cluster": {
                    "%s": ["%s"],
                    "ps": ["%s"],
                    "worker": ["%s", "%s"]
                  },
                  "task": {"type": "worker", "index": 1},
                  "environment": "cloud"
                }
                """
                    .formatted(
                        chief,
                        at.get(chief + ":0"),
                        at.get("ps:0"),
                        at.get("worker:0"),
                        at.get("worker:1"))));
    assertThat(printed.get(1)).isEqualTo(printed.get(0));
    assertThat(printed.subList(2, printed.size()))
        .containsExactlyInAnyOrder(
            row(at.get(chief + ":0"), chief),
            row(at.get("ps:0"), "ps"),
            row(at.get("worker:0"), "worker"),
            row(at.get("worker:1"), "worker"));
  }

  private static String row(String address, String role) {
    return address.replace(':', ',') + "," + role;
  }

  private static JsonElement json(String text) {
    return JsonParser.parseString(text);
  }

  /**
   * The numbers are those of tf-yarn's example. What differs: a task has two CPUs where it has four
   * or eight there, because machines that run tests may have no more.
   */
  @Test
  void elevenTasksGetTheirMemory() throws IOException {
    String limit =
        "cat /sys/fs/cgroup/memory.max 2>/dev/null"
            + " || cat /sys/fs/cgroup/memory/memory.limit_in_bytes;"
            + " [ {job_name} != ps ] || exec sleep 1000";
    ShownCluster shown =
        run(
            all(limit)
                + """
                chief: {memory: 2g, cpus: 2}
                  worker: {memory: 2g, cpus: 2, instances: 8}
                  ps: {memory: 2g, cpus: 2}
                  evaluator: {memory: 1g, cpus: 1}
                """);

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.ends()).hasSize(11);
    assertThat(shown.servers()).hasSize(3);
    assertThat(shown.printed("chief:0")).containsExactly("" + (2L << 30));
    assertThat(IntStream.range(0, 8).mapToObj(i -> shown.printed("worker:" + i)))
        .allMatch(List.of("" + (2L << 30))::equals);
    assertThat(shown.printed("evaluator:0")).containsExactly("" + (1L << 30));
    assertThat(shown.ends().get("ps:0").why()).isEqualTo(STOPPED);
  }

  @Test
  void whatATaskNeedsIsInstalledBeforeItStarts() throws IOException {
    Path files = Files.createDirectory(folder.resolve("files"));
    Path wheel = TinyWheel.in(files);
    Files.writeString(files.resolve("use.py"), "import tiny\nprint(tiny.WORD)\n");

    ShownCluster shown =
        run(
            """
            service: tensorflow
            files: files
            script: use.py
            pip: [./%s]
            tasks:
              worker: {instances: 2}
            """
                .formatted(wheel.getFileName()));

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.printed("worker:0")).last().isEqualTo("berth");
    assertThat(shown.printed("worker:1")).last().isEqualTo("berth");
  }

  @Test
  void tensorBoardIsShownWhereItIsAndStoppedAtTheEnd() throws IOException {
    Files.writeString(
        folder.resolve("look.py"),
        """
        import sys, time, urllib.error, urllib.request
        while True:
            try:
                page = urllib.request.urlopen("http://" + sys.argv[1]).read().decode()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        print("<title>TensorBoard" in page)
        """);

    ShownCluster shown =
        run(
            """
            service: tensorflow
            script: look.py {tensorboard_hosts}
            tasks:
              worker: {}
              tensorboard: {}
            """);

    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.printed("worker:0")).containsExactly("True");
    assertThat(shown.err())
        .contains("berth: TensorBoard: http://" + shown.addresses().get("tensorboard:0") + "/\n");
    assertThat(shown.ends().get("tensorboard:0").why()).isEqualTo(STOPPED);
  }

  @Test
  void ctrlCEndsAllTasksAndLeavesNothing() throws Exception {
    Process berth =
        startAndAwaitReady(
            all("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done")
                + "worker: {instances: 3, gpus: 1}\n  ps: {}\n",
            4);

    assertThat(Installed.run("kill", "-INT", "" + berth.pid()).exitCode()).isZero();

    ShownCluster shown = end(berth);
    assertThat(shown.exitCode()).as(shown.err()).isEqualTo(130);
    assertThat(shown.err()).contains("berth: cancelling; Ctrl-C again kills\n");
    assertThat(shown.out().lines().filter(line -> line.endsWith(" bye"))).hasSize(4);
    assertThat(shown.ends().values()).hasSize(4).allMatch(end -> end.why().equals("cancelled"));
    assertThat(shown.lastWord()).startsWith("berth: test was cancelled after ");
  }

  @Test
  void whenTheCommandIsKilledEverythingIsGoneWithinAMinute() throws Exception {
    Process berth =
        startAndAwaitReady(
            all("echo ready; exec sleep 1000") + "worker: {instances: 3, gpus: 2}\n  ps: {}\n", 4);
    assertThat(machines.unfinished()).hasSize(4);
    assertThat(machines.held()).hasSize(4);

    berth.destroyForcibly();

    machines.assertNothingLeftAfter(Duration.ofMinutes(1));
  }

  @Test
  void aClusterGoesOnWhileAServerIsRestarted() throws Exception {
    String script = "echo ready; until [ -e /shared/go ]; do sleep 0.1; done; echo done";
    Process berth =
        startAndAwaitReady(
            all(script)
                + "worker: {instances: 3, gpus: 2}\n  ps: {servers: [gpu02]}\nmounts: ['"
                + shared
                + ":/shared']\n",
            4);

    machines.machine(2).kill();
    machines.machine(2).start();
    Files.createFile(shared.resolve("go"));

    ShownCluster shown = end(berth);
    assertThat(shown.exitCode()).as(shown.err()).isZero();
    assertThat(shown.servers()).hasSize(3);
    for (int i = 0; i < 3; i++) {
      assertThat(shown.printed("worker:" + i)).containsExactly("done");
    }
    machines.awaitServers();
  }

  @Test
  void whoHasNoImageIsNamed() throws IOException {
    String image = "berth.invalid/only-elsewhere:1";
    for (int number : new int[] {1, 3}) {
      machines.machine(number).engine().docker("tag", Engine.IMAGE, image);
    }
    try {
      ShownCluster shown =
          run(
              "image: "
                  + image
                  + "\ncommand: sleep 1000\ntasks:\n  worker: {instances: 3, gpus: 2}\n");

      assertThat(shown.exitCode()).as(shown.err()).isEqualTo(125);
      assertThat(shown.lastWord())
          .matches(
              "berth: test failed after \\d+s: worker:\\d on gpu02 could not be started: image "
                  + image
                  + " is not on this server and cannot be pulled: it is never pulled; .*");
      assertThat(shown.err()).doesNotContain("could not be released");
    } finally {
      for (int number : new int[] {1, 3}) {
        machines.machine(number).engine().docker("rmi", image);
      }
    }
  }

  @Test
  void whoDoesNotStartInTimeIsNamed() throws Exception {
    // It takes connections, and never says a word.
    Process registry =
        new ProcessBuilder(
                machines
                    .user()
                    .inside(
                        List.of(
                            "python3",
                            "-c",
                            "import socket, sys; s = socket.create_server(('', 5000));"
                                + " print('ready', flush=True); sys.stdin.read()")))
            .start();
    try {
      assertThat(registry.inputReader().readLine()).isEqualTo("ready");
      String image = machines.userHost() + ":5000/slow:1";

      ShownCluster shown =
          run(
              all("exec sleep 1000")
                  + "worker: {gpus: 1}\n  ps: {image: '"
                  + image
                  + "', servers: [gpu03]}\nstart-timeout: 3s\n");

      assertThat(shown.exitCode()).as(shown.err()).isEqualTo(125);
      assertThat(shown.lastWord())
          .matches("berth: test failed after \\d+s: after 3 s there is no .*")
          .contains("ps:0 on gpu03 (its image is being fetched, 0 %)");
      assertThat(shown.ends().get("worker:0").why()).isEqualTo("cancelled");
    } finally {
      registry.getOutputStream().close();
      registry.waitFor();
    }
  }

  /** The beginning of a cluster file in which all tasks run a script of busybox's shell. */
  private static String all(String script) {
    return "image: "
        + Engine.IMAGE
        + "\ncommand: [sh, -c, \""
        + script.replace("\\", "\\\\").replace("\"", "\\\"")
        + "\"]\ntasks:\n  ";
  }

  /** A task that does so among others. */
  private static String busybox(String script) {
    return "{image: '" + Engine.IMAGE + "', command: [sh, -c, \"" + script + "\"]}";
  }

  /** An example that can stand in another folder. */
  private static String example(String name) throws IOException {
    String text = Files.readString(EXAMPLES.resolve(name));
    assertThat(text).contains("\nfiles: .\n");
    return text.replace("\nfiles: .\n", "\nfiles: " + EXAMPLES + "\n");
  }

  private ShownCluster runExample(String name) {
    return run(EXAMPLES.resolve(name));
  }

  private ShownCluster run(String yaml) throws IOException {
    return run(file(yaml));
  }

  private ShownCluster run(Path file) {
    return new ShownCluster(
        machines.berth(PATIENCE, "cluster", "run", "--log-dir", logs.toString(), file.toString()));
  }

  private Path file(String yaml) throws IOException {
    return Files.writeString(folder.resolve("test.yaml"), yaml);
  }

  /** Starts a cluster, and returns when so many of its tasks have said {@code ready}. */
  private Process startAndAwaitReady(String yaml, int tasks) throws IOException {
    Process berth = machines.start("cluster", "run", "--no-logs", file(yaml).toString());
    for (int i = 0; i < tasks; i++) {
      assertThat(berth.inputReader().readLine()).endsWith(" ready");
    }
    return berth;
  }

  /** What it shows from now on, until its end. */
  private static ShownCluster end(Process berth) throws IOException, InterruptedException {
    // Neither is longer than a pipe has room for.
    String out = berth.inputReader().lines().map(line -> line + "\n").reduce("", String::concat);
    String err = berth.errorReader().lines().map(line -> line + "\n").reduce("", String::concat);
    return new ShownCluster(berth.waitFor(), out, err);
  }
}
