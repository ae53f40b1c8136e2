package berth.e2e;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.Installed.Result;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code berth cluster run} with real frameworks, in containers on three machines. */
@Tag("docker")
@ExtendWith(ClusterMachines.Shared.class)
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class TrainingClustersTest {
  private static final Path EXAMPLES =
      Path.of(System.getProperty("berth.root"), "examples/clusters");
  private static final Duration PATIENCE = Duration.ofMinutes(4);

  @TempDir private Path folder;
  private static ClusterMachines machines;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(ClusterMachines shared) {
    machines = shared;
  }

  @AfterEach
  void leavesNothing() {
    machines.assertNothingLeft();
  }

  private Path file(String text) throws IOException {
    return Files.writeString(folder.resolve("cluster.yaml"), text);
  }

  private String logs() {
    return folder.resolve("logs").toString();
  }

  private String log(String task) throws IOException {
    return Files.readString(folder.resolve("logs").resolve(task + ".log"));
  }

  private Result run(Path file) {
    return machines.berth(PATIENCE, "cluster", "run", "--log-dir", logs(), file.toString());
  }

  private static void assertSucceeded(Result result) {
    assertThat(result.exitCode()).as(result.out() + result.err()).isZero();
    assertThat(result.err()).contains("succeeded after");
  }

  @Test
  void parameterServersTrainWithChiefWorkersAndEvaluator() throws IOException {
    Path model = machines.shared().resolve("model");
    Result result =
        run(
            file(
                Files.readString(EXAMPLES.resolve("parameter_server.yaml"))
                        .replace("files: .", "files: " + EXAMPLES)
                        .replace("/tmp/model", model.toString())
                    + "mounts: ["
                    + machines.shared()
                    + "]\n"));

    assertSucceeded(result);
    assertThat(log("chief-0")).containsPattern("loss 0\\.00\\d\\d after \\d+ epochs");
    assertThat(log("evaluator-0")).containsPattern("evaluated loss 0\\.00\\d\\d after \\d+ epochs");
    assertThat(result.out()).containsPattern("\\[chief:0\\] +loss 0\\.00");
    assertThat(result.err())
        .contains("gpu01", "gpu02", "gpu03")
        .containsPattern("ps:1 +gpu0\\d +run-\\w+ +\\d+ +\\S+ +stopped when the training was over")
        .containsPattern("chief:0 +gpu0\\d +run-\\w+ +0 ");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "mirrored | worker-1 | loss 0\\.00\\d\\d on 2 replicas",
        "classic | worker-0 | loss 0\\.00\\d\\d at worker 0",
        "torch_ddp | worker-1 | loss 0\\.00\\d\\d at rank 1 of 2",
      })
  void everyExampleLearns(String example, String task, String loss) throws IOException {
    Result result = run(EXAMPLES.resolve(example + ".yaml"));

    assertSucceeded(result);
    assertThat(log(task)).containsPattern(loss);
  }

  @Test
  void aTrainingThatDoesNotLearnFails() throws IOException {
    Result result =
        run(
            file(
                Files.readString(EXAMPLES.resolve("torch_ddp.yaml"))
                    .replace("files: .", "files: " + EXAMPLES)
                    .replace("torch_ddp.py", "torch_ddp.py --steps=1")));

    assertThat(result.exitCode()).as(result.err()).isEqualTo(1);
    assertThat(result.err()).containsPattern("worker:\\d on gpu0\\d ended with exit code 1");
  }

  /** One chief, one parameter server and two workers, as in TFJob's documentation. */
  @Test
  void everyContainerIsToldWhereTheOthersAre() throws IOException {
    Result result =
        run(
            file(
                """
                image: berth-test/busybox:1
                command: [sh, -c, 'echo "$TF_CONFIG"; cat .cluster/tf_config.json']
                tasks:
                  chief: {gpus: 1}
                  ps: {}
                  worker: {instances: 2, gpus: 1}
                """));

    assertSucceeded(result);
    List<String> told = log("worker-1").lines().toList();
    assertThat(told).hasSize(2);
    assertThat(told.get(1)).isEqualTo(told.get(0));
    JsonObject config = JsonParser.parseString(told.get(0)).getAsJsonObject();
    assertThat(config.get("task"))
        .isEqualTo(JsonParser.parseString("{\"type\":\"worker\",\"index\":1}"));
    assertThat(config.get("environment").getAsString()).isEqualTo("cloud");
    JsonObject cluster = config.getAsJsonObject("cluster");
    assertThat(cluster.keySet()).containsExactlyInAnyOrder("chief", "ps", "worker");
    assertThat(cluster.getAsJsonArray("worker")).hasSize(2);
    assertThat(cluster.getAsJsonArray("chief").get(0).getAsString())
        .matches("10\\.77\\.0\\.\\d:\\d+");
    assertThat(Files.readString(folder.resolve("logs/cluster.json")))
        .contains(cluster.getAsJsonArray("ps").get(0).getAsString());
  }

  /** Chief, eight workers, parameter server and evaluator, as in the documentation of tf-yarn. */
  @Test
  void manyTasksShareFewMachines() throws IOException {
    // With the memory that it asks for; of processors these machines have only two.
    Result result =
        run(
            file(
                """
                image: berth-test/busybox:1
                command: [sh, -c, 'echo "{job_name}:{task_index}"; [ {job_name} != ps ] || sleep 1000']
                tasks:
                  chief: {memory: 2g, cpus: 2}
                  worker: {instances: 8, memory: 2g, cpus: 2}
                  ps: {memory: 2g, cpus: 2}
                  evaluator: {memory: 1g, cpus: 1}
                """));

    assertSucceeded(result);
    assertThat(log("worker-7")).isEqualTo("worker:7\n");
    assertThat(result.err()).contains("all 11 tasks run");
  }

  @Test
  void packagesAreInstalledInEveryContainer() throws IOException {
    Path wheel = TinyWheel.in(Files.createDirectory(folder.resolve("files")));
    Files.writeString(folder.resolve("files/use.py"), "import tiny\nprint(tiny.WORD)\n");
    Result result =
        run(
            file(
                """
                service: tensorflow
                files: files
                script: use.py
                pip: [./%s]
                tasks:
                  worker: {instances: 2}
                """
                    .formatted(wheel.getFileName())));

    assertSucceeded(result);
    assertThat(log("worker-0")).contains("berth\n");
    assertThat(log("worker-1")).contains("berth\n");
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
    Result result =
        run(
            file(
                """
                service: tensorflow
                script: look.py {tensorboard_hosts}
                tasks:
                  worker: {}
                  tensorboard: {}
                """));

    assertSucceeded(result);
    assertThat(log("worker-0")).isEqualTo("True\n");
    assertThat(result.err()).containsPattern("TensorBoard: http://10\\.77\\.0\\.\\d:\\d+/");
  }

  @Test
  void anImageThatIsNotThereIsNamedWithTheTaskThatWantsIt() throws IOException {
    Result result =
        run(
            file(
                """
                image: berth-test/busybox:1
                command: [sleep, '1000']
                tasks:
                  worker: {instances: 2, gpus: 1}
                  ps: {image: 'berth-test/nothing:1'}
                """));

    assertThat(result.exitCode()).as(result.err()).isEqualTo(125);
    assertThat(result.err()).containsPattern("ps:0 on gpu0\\d could not be started: .*nothing");
  }

  @Test
  void ctrlCEndsEverything() throws Exception {
    Process berth = startSleeping();

    assertThat(new ProcessBuilder("kill", "-INT", Long.toString(berth.pid())).start().waitFor())
        .isZero();

    assertThat(berth.waitFor()).isEqualTo(130);
  }

  @Test
  void nothingOutlivesAClientThatIsKilled() throws Exception {
    Process berth = startSleeping();

    berth.destroyForcibly().waitFor();

    await()
        .atMost(Duration.ofMinutes(2))
        .until(() -> machines.unfinished().isEmpty() && machines.held().isEmpty());
  }

  @Test
  void aServerThatIsKilledAndStartedAgainGoesOnWithItsTask() throws Exception {
    Path go = machines.shared().resolve("go");
    Process berth =
        machines.start(
            "cluster",
            "run",
            "--no-logs",
            file("""
            image: berth-test/busybox:1
            command: [sh, -c, 'echo ready; until [ -e %s ]; do sleep 0.1; done; echo done']
            mounts: [%s]
            tasks:
              worker: {instances: 3, gpus: 1}
            """
                    .formatted(go, machines.shared()))
                .toString());
    BufferedReader out = berth.inputReader();
    for (int i = 0; i < 3; i++) {
      assertThat(out.readLine()).contains("ready");
    }

    machines.machine(2).kill();
    machines.machine(2).start();
    Files.createFile(go);

    assertThat(out.lines().filter(line -> line.endsWith("done"))).hasSize(3);
    assertThat(berth.waitFor()).isZero();
  }

  private Process startSleeping() throws IOException {
    Process berth =
        machines.start(
            "cluster",
            "run",
            "--no-logs",
            file("""
            image: berth-test/busybox:1
            command: [sh, -c, 'echo ready; exec sleep 1000']
            tasks:
              worker: {instances: 3, gpus: 1}
              ps: {}
            """)
                .toString());
    BufferedReader out = berth.inputReader();
    for (int i = 0; i < 4; i++) {
      assertThat(out.readLine()).contains("ready");
    }
    return berth;
  }
}
