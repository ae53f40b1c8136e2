package berth.e2e.images;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.RunServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
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
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The images that the installed catalogue names, as {@code scripts/build-images.sh} builds them.
 */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class JobImagesTest {
  private static final Path ROOT = Path.of(System.getProperty("berth.root"));
  private static final Duration PATIENCE_FOR_IMAGES = Duration.ofMinutes(30);
  private static final String[] FRAMEWORKS = {"tensorflow", "pytorch", "caffe"};

  /** Prints who it is, what it sees of GPUs, and the version of a framework. */
  private static final String REPORT =
      """
      import os, subprocess, sys
      print("user", os.getuid(), "in", os.getcwd())
      print("GPUs", os.environ["NV_GPU"], "seen as", os.environ["CUDA_VISIBLE_DEVICES"])
      print("python", "%d.%d" % sys.version_info[:2])
      import numpy
      open("numbers", "w").write(str(numpy.arange(3).sum()))
      if sys.argv[1] == "caffe":
          import h5py
          print(subprocess.run(["caffe", "--version"], stdout=subprocess.PIPE, text=True).stdout)
      elif sys.argv[1] == "tensorflow":
          import tensorflow
          print("tensorflow", tensorflow.__version__, tensorflow.reduce_sum([1.0, 2.0]).numpy())
      else:
          import torch
          print("torch", torch.__version__, torch.tensor([1.0, 2.0]).sum().item())
      """;

  /** Makes a package, and installs it as far as this user can. */
  private static final String INSTALL =
      """
      import subprocess, sys, zipfile
      with zipfile.ZipFile("greeting-1.0-py3-none-any.whl", "w") as wheel:
          wheel.writestr("greeting.py", "print('installed')")
          about = "greeting-1.0.dist-info/"
          wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n")
          wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
          wheel.writestr(about + "RECORD", "")
      subprocess.run(
          [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--target", "packages",
           "./greeting-1.0-py3-none-any.whl"], check=True)
      sys.path.insert(0, "packages")
      import greeting
      """;

  private static final String NET =
      """
      layer { name: "data" type: "HDF5Data" top: "data" top: "label"
              hdf5_data_param { source: "files.txt" batch_size: 50 } }
      layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores"
              inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
      layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy"
              include { phase: TEST } }
      """;

  private static final String SOLVER =
      """
      net: "net.prototxt" base_lr: 0.5 lr_policy: "fixed" max_iter: 200 snapshot_prefix: "trained"
      solver_mode: GPU
      """;

  /** Learns on which side of a line points are. */
  private static final String TRAIN_CAFFE =
      """
      import h5py, numpy, subprocess, sys
      points = numpy.random.default_rng(1).normal(size=(500, 2)).astype("float32")
      with h5py.File("points.h5", "w") as file:
          file["data"] = points
          file["label"] = (points[:, 0] > points[:, 1]).astype("float32")
      open("files.txt", "w").write("points.h5\\n")
      trained = subprocess.run(["caffe", "train", "--solver=solver.prototxt", *sys.argv[1:]])
      sys.exit(trained.returncode or subprocess.run(
          ["caffe", "test", "-model", "net.prototxt", "-weights", "trained_iter_200.caffemodel",
           "-iterations=10"]).returncode)
      """;

  @TempDir private static Path folder;
  @TempDir private Path sources;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  @Timeout(value = 30, unit = TimeUnit.MINUTES)
  static void start(Engine shared) {
    engine = shared;
    Result built = buildImages(FRAMEWORKS);
    assertThat(built.exitCode()).as(built.err()).isZero();
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

  @ParameterizedTest
  @CsvSource({
    "tensorflow, tensorflow 2.21.0 3.0",
    "pytorch-2.13, torch 2.13.0+cpu 3.0",
    "caffe, caffe version 1.0.0 (CPU only)"
  })
  void eachServiceRunsItsFrameworkAsAUserWhoIsNotRoot(String service, String version)
      throws IOException {
    Path report = write("report.py", REPORT);

    Result result = run("--service", service, "--gpus", "2", report.toString(), service);

    assertThat(result.exitCode()).as(result.err()).isZero();
    assertThat(result.out())
        .contains(
            "user 1000 in /work\n", "GPUs 0,1 seen as 0,1\n", "python 3.11\n", version + "\n");
  }

  @ParameterizedTest
  @ValueSource(strings = {"tensorflow", "pytorch"})
  void furtherPackagesCanBeInstalledByPip(String service) throws IOException {
    Result result = run("--service", service, write("install.py", INSTALL).toString());

    assertThat(result.exitCode()).as(result.err()).isZero();
    assertThat(result.out()).isEqualTo("installed\n");
  }

  @ParameterizedTest
  @ValueSource(strings = {"tensorflow", "pytorch", "caffe"})
  void imagesSayNothingOfGpusThemselves(String name) {
    String image = tagOf(name);
    assertThat(engine.docker("image", "inspect", "-f", "{{.Config.Env}}", image))
        .doesNotContain("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NV_GPU");
    assertThat(engine.docker("image", "inspect", "-f", "{{.Id}}", image))
        .isEqualTo(engine.docker("image", "inspect", "-f", "{{.Id}}", image + "-cpu"));
  }

  @Test
  void caffeTrainsOnTheCpuAndSaysInPlaceOfWhichGpus() throws IOException {
    write("net.prototxt", NET);
    write("solver.prototxt", SOLVER);
    write("train.py", TRAIN_CAFFE);

    Result asked = train("-gpu", "0,1");
    assertThat(asked.exitCode()).as(asked.err()).isZero();
    assertThat(asked.err())
        .contains("caffe: this build trains on the CPU in place of GPUs 0,1\n")
        .containsPattern("\\] accuracy = (0\\.9|1)");

    Result bySolver = train();
    assertThat(bySolver.exitCode()).isZero();
    assertThat(bySolver.err()).contains("caffe: this build trains on the CPU in place of GPU 0\n");
  }

  @Test
  void whatIsUpToDateIsNotBuiltAgain() {
    Result result = buildImages(FRAMEWORKS);

    assertThat(result.exitCode()).isZero();
    assertThat(result.err().lines().filter(line -> line.contains(": up to date, "))).hasSize(3);
    assertThat(result.err()).doesNotContain("Building", "Loading");
  }

  private Result train(String... words) {
    List<String> all = new ArrayList<>(List.of("--service", "caffe", "--gpus", "2", "--bundle"));
    all.addAll(List.of(sources.toString(), "train.py"));
    all.addAll(Arrays.asList(words));
    return run(all.toArray(String[]::new));
  }

  private Path write(String name, String text) throws IOException {
    return Files.writeString(sources.resolve(name), text);
  }

  private static Result run(String... words) {
    List<String> all = new ArrayList<>(List.of("run", "--server", server.daemon().address()));
    all.addAll(Arrays.asList(words));
    return Installed.berth(all.toArray(String[]::new));
  }

  private static String tagOf(String name) {
    return engine
        .docker("images", "--format", "{{.Repository}}:{{.Tag}}", "berth.invalid/" + name)
        .lines()
        .filter(tag -> !tag.endsWith("-cpu"))
        .findFirst()
        .orElseThrow();
  }

  private static Result buildImages(String... names) {
    List<String> command = new ArrayList<>(List.of(ROOT + "/scripts/build-images.sh"));
    command.addAll(Arrays.asList(names));
    return Installed.run(
        Map.of("DOCKER_HOST", engine.host()), PATIENCE_FOR_IMAGES, command.toArray(String[]::new));
  }
}
