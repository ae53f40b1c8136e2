package berth.e2e.examples;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.RunServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The examples, run as a reader of theirs would, in the images that they are written for. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class ExamplesTest {
  private static final Path ROOT = Path.of(System.getProperty("berth.root"));
  private static final Path EXAMPLES = ROOT.resolve("examples");
  private static final Duration PATIENCE = Duration.ofSeconds(100);
  private static final Duration PATIENCE_FOR_IMAGES = Duration.ofMinutes(30);
  private static final Pattern ACCURACY =
      Pattern.compile("(?m)^accuracy (\\d\\.\\d+) on \\d+ digits");

  private static final String TENSORFLOW = "tensorflow-digits/run_tf_mnist.sh";
  private static final String CAFFE = "caffe-digits/run_caffe_mnist.sh";
  private static final String CUSTOM = "custom-container/run_custom_container.sh";
  private static final String QUERY = "java-clients/run_query_devices.sh";
  private static final String TRAIN = "java-clients/run_train_digits.sh";
  private static final String MULTI_GPU = "java-clients/run_multi_gpu.sh";

  @TempDir private static Path folder;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(Engine shared) {
    engine = shared;
    Result images =
        Installed.run(
            Map.of("DOCKER_HOST", engine.host()),
            PATIENCE_FOR_IMAGES,
            ROOT.resolve("scripts/build-images.sh").toString(),
            "tensorflow",
            "caffe");
    assertThat(images.exitCode()).as(images.err()).isZero();
    server =
        new RunServer(
            folder,
            "--name",
            "gpu01",
            "--docker",
            engine.host(),
            "--simulate-gpus",
            "4",
            "--services",
            Installed.home().resolve("etc/services.yaml").toString());
  }

  @AfterEach
  void leavesNothing() {
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  static List<String> scripts() throws IOException {
    try (Stream<Path> files = Files.walk(EXAMPLES, 2)) {
      return files
          .map(file -> EXAMPLES.relativize(file).toString())
          .filter(name -> name.matches("[^/]+/run_\\w+\\.sh"))
          .sorted()
          .toList();
    }
  }

  @Test
  void allExamplesAreTestedHere() throws IOException {
    assertThat(scripts())
        .containsExactlyInAnyOrder(TENSORFLOW, CAFFE, CUSTOM, QUERY, TRAIN, MULTI_GPU);
  }

  @ParameterizedTest
  @MethodSource("scripts")
  void saysWhatItDoesAndWhatCanBeChosen(String script) {
    Result result = run(Map.of(), script, "--help");

    assertThat(result.exitCode()).isZero();
    assertThat(result.err()).isEmpty();
    assertThat(result.out())
        .startsWith("Usage: " + Path.of(script).getFileName() + " [OPTIONS] [ARGUMENTS]\n")
        .contains("--server", "--gpus N", "--container IMAGE", "--envlist=VAR1,VAR2", "NV_GPU=1,2");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        TENSORFLOW + "| TensorFlow sees no GPU here and trains on the CPU",
        CAFFE + "     | $ caffe train --solver=solver.prototxt -gpu 0,1",
        CUSTOM + "    | awk computes on the CPU, for 10 epochs",
        TRAIN + "     | exit code 0, accuracy 9",
        MULTI_GPU + " | training 2 replicas",
      })
  void learnsToReadDigitsOnExactlyTheGpusOfNvGpu(String script, String says) {
    Result result = run(Map.of("NV_GPU", "1,2"), script);

    assertThat(result.exitCode()).as(result.toString()).isZero();
    assertThat(result.out()).contains("NV_GPU=1,2\n", "CUDA_VISIBLE_DEVICES=0,1\n", "\n" + says);
    assertThat(accuracy(result)).isBetween(0.9, 1.0);
  }

  @ParameterizedTest
  @CsvSource({TENSORFLOW + ",--epochs", CAFFE + ",--steps", TRAIN + ",--epochs"})
  void failsIfItDidNotLearn(String script, String option) {
    Result result = run(Map.of(), script, option, "0");

    assertThat(result.exitCode()).as(result.toString()).isEqualTo(1);
    assertThat(accuracy(result)).isLessThan(0.5);
    assertThat(result.err()).contains("it has not learned: the accuracy 0.");
  }

  @Test
  void caffeTrainsOnTheGpusThatItIsToldOfThoseThatItHas() {
    Result result = run(Map.of("NV_GPU", "1,2"), CAFFE, "--steps", "1", "-gpu", "1");

    assertThat(result.out())
        .contains("CUDA_VISIBLE_DEVICES=0,1\n", "$ caffe train --solver=solver.prototxt -gpu 1\n");
  }

  @Test
  void aProgramInJavaSeesTheGpusOfTheServerAndThoseOfItsJob() {
    Result result = run(Map.of("NV_GPU", "1,2"), QUERY);

    assertThat(result.exitCode()).as(result.toString()).isZero();
    assertThat(result.out())
        .contains("the job: NV_GPU=1,2\n", "the job: CUDA_VISIBLE_DEVICES=0,1\n")
        .contains("the job: CPU /physical_device:CPU:0\n");
    assertThat(result.out().lines().filter(line -> line.startsWith("gpu01: ")))
        .containsExactly(
            "gpu01: [0] Simulated A100 80GB",
            "gpu01: [1] Simulated A100 80GB, which the job had",
            "gpu01: [2] Simulated A100 80GB, which the job had",
            "gpu01: [3] Simulated A100 80GB");
  }

  @Test
  void trainsOnANumberOfGpusThatDividesNoBatch() {
    Result result = run(Map.of(), MULTI_GPU, "--gpus=3", "--epochs=1", "--train=1000", "--floor=0");

    assertThat(result.exitCode()).as(result.toString()).isZero();
    assertThat(result.out()).contains("3 CPU devices play the 3 GPUs\n", "training 3 replicas\n");
  }

  @Test
  void passesVariablesOfTheCallerOn() {
    Result result = run(Map.of("EPOCHS", "0"), CUSTOM, "--envlist=EPOCHS");

    assertThat(result.out()).contains("for 0 epochs\n");
    assertThat(result.err()).contains("it has not learned: the accuracy 0.100 is below 0.900");
    assertThat(result.exitCode()).isEqualTo(1);
  }

  @ParameterizedTest
  @CsvSource({
    "'',   2,   2",
    "'',   '2,3', '2,3'",
    "'1,3', 1,  3",
    "'3,1', '1,0', '1,3'",
  })
  void cudaVisibleDevicesInTheListChoosesGpusAsItDidWithoutBerth(
      String nvGpu, String visible, String reserved) {
    Map<String, String> variables = Map.of("NV_GPU", nvGpu, "CUDA_VISIBLE_DEVICES", visible);
    Result result = run(variables, CUSTOM, "--envlist=CUDA_VISIBLE_DEVICES", "env");

    assertThat(result.exitCode()).as(result.toString()).isZero();
    assertThat(result.out().lines())
        .contains("NV_GPU=" + reserved)
        .contains("CUDA_VISIBLE_DEVICES=" + (reserved.contains(",") ? "0,1" : "0"));
  }

  @Test
  void saysWhichVariableItDoesNotPassOn() {
    Result result =
        run(
            Map.of("NVIDIA_VISIBLE_DEVICES", "all", "COLOUR", "blue"),
            CUSTOM,
            "--envlist=NVIDIA_VISIBLE_DEVICES,COLOUR",
            "env");

    assertThat(result.err())
        .isEqualTo(
            "run_custom_container.sh: Berth sets NVIDIA_VISIBLE_DEVICES itself; yours is not passed"
                + " on\n");
    assertThat(result.out().lines()).contains("COLOUR=blue", "CUDA_VISIBLE_DEVICES=0");
    assertThat(result.out()).doesNotContain("NVIDIA_VISIBLE_DEVICES=all");
  }

  @Test
  void runsAnyCommandInAnyContainer() {
    Result result = run(Map.of(), CUSTOM, "--container", Engine.IMAGE, "sh", "-c", "exit 7");

    assertThat(result.exitCode()).as(result.toString()).isEqualTo(7);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--gpus=2                        | --gpus counts GPUs, and NV_GPU=1,2 chooses them: use"
            + " one",
        "--envlist=NO_SUCH_VARIABLE      | --envlist: the variable NO_SUCH_VARIABLE is not set",
        "--envlist=a-b                   | --envlist: 'a-b' is not a valid variable name",
        "--envlist=CUDA_VISIBLE_DEVICES  | there is no GPU '2' among 2",
        "--container                     | --container needs a value; see --help",
        "--server=127.0.0.1:1            | no berthd at 127.0.0.1:1",
      })
  void refusesInOneSentence(String option, String reason) {
    Result result = run(Map.of("NV_GPU", "1,2", "CUDA_VISIBLE_DEVICES", "2"), TENSORFLOW, option);

    assertThat(result.exitCode()).isEqualTo(125);
    assertThat(result.out()).isEmpty();
    assertThat(result.err().lines().reduce((before, last) -> last).orElse("")).contains(reason);
  }

  private static Result run(Map<String, String> variables, String script, String... words) {
    Map<String, String> environment = new HashMap<>(variables);
    environment.put("BERTH_SERVER", server.daemon().address());
    environment.put("DOCKER_HOST", engine.host());
    environment.put("PATH", Installed.home().resolve("bin") + ":" + System.getenv("PATH"));
    return Installed.run(
        environment,
        PATIENCE,
        Stream.concat(Stream.of(EXAMPLES.resolve(script).toString()), Stream.of(words))
            .toArray(String[]::new));
  }

  private static double accuracy(Result result) {
    Matcher matcher = ACCURACY.matcher(result.out());
    assertThat(matcher.find()).as(result.toString()).isTrue();
    return Double.parseDouble(matcher.group(1));
  }
}
