package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.host.lock.LockedGpu;
import berth.rpc.Reason;
import berth.v1.Limits;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import berth.v1.UserId;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What is started for which request. */
class LaunchPlannerTest {
  @TempDir private Path folder;
  private LaunchPlanner planner;

  @BeforeEach
  void make() throws IOException {
    Path services =
        Files.writeString(
            folder.resolve("services.yaml"),
            """
            services:
              tensorflow:
                image: berth.invalid/tensorflow:2.21
                aliases: [tensorflow-2.21]
                interpreter: [python3, -u]
                env: {TF_CPP_MIN_LOG_LEVEL: "1", MODE: gpu}
                shm: 1g
                memory: 8g
                ulimits: {memlock: -1}
              tool: {image: lab/tool:1, pull: never}
              solo: {image: solo:2, pull: never}
              fixed: {image: ghcr.io/lab/fixed@sha256:%s, pull: never}
              old: {image: berth/tensorflow:2.21}
              open: {image: lab/open:1}
            """
                .formatted("0".repeat(64)));
    planner =
        new LaunchPlanner(
            "gpu01",
            Services.load(services),
            MountRules.none(),
            new UidRange(5000, 5999),
            bundles());
  }

  @Test
  void aServiceBringsWhatTheRequestLeavesOut() {
    Launch launch =
        plan(
            RunCodeRequest.newBuilder()
                .setService("TensorFlow-2.21")
                .setSource(Source.newBuilder().setFileName("train.py"))
                .addCommand("--epochs=3")
                .putEnv("MODE", "test")
                .setLimits(Limits.newBuilder().setMemoryBytes(64 << 20)));

    assertThat(launch.image()).contains("berth.invalid/tensorflow:2.21");
    assertThat(launch.command()).containsExactly("python3", "-u", "./train.py", "--epochs=3");
    assertThat(launch.env())
        .containsEntry("TF_CPP_MIN_LOG_LEVEL", "1")
        .containsEntry("MODE", "test")
        .containsEntry("BERTH_RUN_ID", "run-a")
        .containsEntry("BERTH_SERVER", "gpu01");
    assertThat(launch.limits().memory()).hasValue(64 << 20);
    assertThat(launch.limits().sharedMemory()).hasValue(1 << 30);
    assertThat(launch.ulimits()).isEqualTo(Map.of("memlock", -1L));
  }

  @Test
  void whatWasBuiltHereIsNeverFetchedFromARegistry() {
    for (String name :
        List.of("berth.invalid/tensorflow:2.21", "Other.Invalid:5000/x:1", "a.invalid/b/c:1")) {
      assertThat(neverFetched(name))
          .as(name)
          .contains("it is never pulled; build it with scripts/build-images.sh, or load it");
    }
    for (String name :
        List.of("busybox:1.35", "invalid/x:1", "ghcr.io/x.invalid/y:1", "ghcr.io/berth/x:1")) {
      assertThat(neverFetched(name)).as(name).isEmpty();
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '"',
      value = {
        "busybox | the image 'busybox' has no tag, and 'latest' may change every day: name a"
            + " version, for example 'busybox:1.0'",
        "busybox:latest | the image 'busybox:latest' has the tag 'latest', which may change every"
            + " day: name a version or a digest",
        "-x:1 | '-x:1' is not the name of an image such as busybox:1.35",
      })
  void anImageIsNamedByTagOrDigest(String image, String why) {
    assertThatThrownBy(() -> plan(RunCodeRequest.newBuilder().setImage(image).addCommand("x")))
        .hasMessage(why);
  }

  /** Else whoever names the image gets it fetched, and the next who names the service runs it. */
  @Test
  void whatAServiceNeverFetchesIsNotFetchedForOthersEither() {
    String digest = "@sha256:" + "0".repeat(64);
    for (String name :
        List.of(
            "lab/tool:1",
            "docker.io/lab/tool:1",
            "index.docker.io/lab/tool:1",
            "registry-1.docker.io/lab/tool:1",
            "Docker.IO:443/lab/tool:1",
            "lab/tool:1" + digest)) {
      assertThat(neverFetched(name))
          .as(name)
          .contains("service 'tool' sets 'pull: never'; build or load it on this server");
    }
    for (String name :
        List.of(
            "solo:2",
            "library/solo:2",
            "docker.io/solo:2",
            "docker.io/library/solo:2",
            "registry-1.docker.io/library/solo:2",
            "ghcr.io/lab/fixed" + digest,
            "GHCR.io/lab/fixed:3" + digest)) {
      assertThat(neverFetched(name)).as(name).isPresent();
    }
    for (String name : List.of("lab/tool:2", "ghcr.io/lab/tool:1", "localhost/lab/tool:1")) {
      assertThat(neverFetched(name)).as(name).isEmpty();
    }
    assertThat(plan(RunCodeRequest.newBuilder().setService("TOOL").addCommand("x")).neverFetched())
        .isPresent();
    assertThat(plan(RunCodeRequest.newBuilder().setService("open").addCommand("x")).neverFetched())
        .isEmpty();
  }

  /** They may still be in a file of services, and anybody can have them at Docker Hub. */
  @Test
  void namesThatEarlierVersionsBuiltAreNeverFetched() {
    for (String name :
        List.of("berth/tensorflow:2.21", "docker.io/berth/x:1", "index.docker.io/berth/caffe:1")) {
      assertThat(neverFetched(name))
          .as(name)
          .contains(
              "images named berth/... are never pulled, since Docker Hub may have others of that"
                  + " name; build it with scripts/build-images.sh and name it berth.invalid/...,"
                  + " also in the services file");
    }
    assertThat(plan(RunCodeRequest.newBuilder().setService("old").addCommand("x")).neverFetched())
        .isPresent();
  }

  private Optional<String> neverFetched(String image) {
    return plan(RunCodeRequest.newBuilder().setImage(image).addCommand("x")).neverFetched();
  }

  @Test
  void theFirstLineOfASourceFileMayNameItsInterpreter() {
    assertThat(plan(source("#!/usr/bin/env python3 -u\nprint(1)\n")).command())
        .containsExactly("/usr/bin/env", "python3", "-u", "./x");
  }

  @Test
  void aSourceFileWithoutAnyInterpreterIsRefused() {
    assertThatThrownBy(() -> plan(source("print(1)")))
        .hasMessage(
            "no interpreter for x: use a service that has one, --interpreter, or a #! line");
  }

  @Test
  void aBundleMustHaveBeenUploaded() {
    String digest = "0".repeat(64);
    assertThatThrownBy(() -> plan(RunCodeRequest.newBuilder().setImage("a:1").setBundle(digest)))
        .hasMessage("there is no bundle " + digest + " on gpu01; upload it first");
  }

  @ParameterizedTest
  @CsvSource({"5000,5000", "5999,1000", "1000,5999", "0,5500", "5500,0"})
  void noProgramIsASupervisorsUserOrInItsGroup(int uid, int gid) {
    assertThatThrownBy(() -> plan(asUser(uid, gid)))
        .hasMessage(
            "user "
                + uid
                + ":"
                + gid
                + " asked, but users and groups from 5000 to 5999 are those of the supervisors of"
                + " clusters (--supervisor-uids)")
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void usersBesideThoseOfTheSupervisorsAreTaken() {
    assertThat(plan(asUser(4999, 6000)).user()).contains(new RequestedRun.User(4999, 6000));
  }

  private static RunCodeRequest.Builder asUser(int uid, int gid) {
    return RunCodeRequest.newBuilder()
        .setImage("a:1")
        .setUser(UserId.newBuilder().setUid(uid).setGid(gid));
  }

  @Test
  void filesAreBroughtAfterTheBundleAndBelongToTheRunsUser() throws IOException {
    byte[] tar =
        new Tars().file("train.py", "old").file("lib/a.py", "a").link("link", "lib/a.py").bytes();
    try (Bundles.Upload upload = bundles().begin(Tars.sha256(tar))) {
      upload.write(ByteBuffer.wrap(tar));
      upload.finish();
    }
    Path work = Files.createDirectories(folder.resolve("run-a/work"));
    int uid = (int) Files.getAttribute(work, "unix:uid");
    int gid = (int) Files.getAttribute(work, "unix:gid");
    // Only root can give files to somebody else.
    int other = uid == 0 ? 4711 : uid;

    RunFolder run = new RunFolder(folder.resolve("run-a"));
    RunCodeRequest.Builder request =
        RunCodeRequest.newBuilder()
            .setImage("a:1")
            .setBundle(Tars.sha256(tar))
            .setUser(UserId.newBuilder().setUid(other).setGid(gid))
            .putFiles("train.py", ByteString.copyFromUtf8("new"))
            .putFiles("link", ByteString.copyFromUtf8("a file"))
            .putFiles("conf/tf.json", ByteString.copyFromUtf8("{}"));
    planner.bringBundle(run, new RequestedRun.Code.Bundle(Tars.sha256(tar)));
    planner.bringFiles(run, RunMessages.spec(request.build()));
    planner.handOver(plan(request));

    assertThat(work.resolve("train.py")).hasContent("new");
    assertThat(work.resolve("lib/a.py")).hasContent("a");
    assertThat(work.resolve("link")).hasContent("a file");
    assertThat(work.resolve("conf/tf.json")).hasContent("{}");
    for (String path : List.of("train.py", "lib/a.py", "conf", "conf/tf.json")) {
      assertThat(Files.getAttribute(work.resolve(path), "unix:uid")).isEqualTo(other);
    }
  }

  @Test
  void nothingIsLeftOfABundleThatCannotBeUnpacked() throws IOException {
    byte[] tar = new Tars().file("a", "a").file("b/c", "c").bytes();
    try (Bundles.Upload upload = bundles().begin(Tars.sha256(tar))) {
      upload.write(ByteBuffer.wrap(tar));
      upload.finish();
    }
    Path work = Files.createDirectories(folder.resolve("run-a/work"));
    Files.writeString(work.resolve("b"), "in the way");

    assertThatThrownBy(
            () ->
                planner.bringBundle(
                    new RunFolder(folder.resolve("run-a")),
                    new RequestedRun.Code.Bundle(Tars.sha256(tar))))
        .hasMessageContaining("is in the way of a folder");

    assertThat(work).doesNotExist();
  }

  @Test
  void inAContainerGpusAreCountedFromZeroAndOnTheHostNot() {
    List<LockedGpu> gpus = List.of(new LockedGpu(1, "GPU-b"), new LockedGpu(3, "GPU-d"));

    assertThat(GpuVariables.inContainer(gpus))
        .isEqualTo(
            Map.of(
                "NV_GPU", "1,3", "CUDA_VISIBLE_DEVICES", "0,1", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"));
    assertThat(GpuVariables.onHost(gpus))
        .isEqualTo(
            Map.of(
                "NV_GPU", "1,3", "CUDA_VISIBLE_DEVICES", "1,3", "CUDA_DEVICE_ORDER", "PCI_BUS_ID"));
  }

  @Test
  void aRunWithoutGpusSeesNone() {
    assertThat(GpuVariables.inContainer(List.of()))
        .containsEntry("CUDA_VISIBLE_DEVICES", "-1")
        .containsEntry("NVIDIA_VISIBLE_DEVICES", "void")
        .doesNotContainKey("NV_GPU");
  }

  private Bundles bundles() {
    return new Bundles(
        folder.resolve("bundles"),
        new Bundles.Limits(1 << 20, 1 << 20, 1 << 30),
        Disks.roomy(folder),
        Disks.durable());
  }

  private static RunCodeRequest.Builder source(String content) {
    return RunCodeRequest.newBuilder()
        .setImage("a:1")
        .setSource(
            Source.newBuilder().setFileName("x").setContent(ByteString.copyFromUtf8(content)));
  }

  private Launch plan(RunCodeRequest.Builder request) {
    RequestedRun spec = RunMessages.spec(request.build());
    return planner.plan(
        "run-a",
        new RunFolder(folder.resolve("run-a")),
        spec,
        planner.binds(spec.mounts()),
        Optional.empty());
  }
}
