package berth.e2e.runs;

import static berth.e2e.fixture.Asked.AWAIT_GO;
import static berth.e2e.fixture.Asked.command;
import static berth.e2e.fixture.Asked.gpus;
import static berth.e2e.fixture.Asked.grace;
import static berth.e2e.fixture.Asked.reservation;
import static berth.e2e.fixture.Asked.seconds;
import static berth.e2e.fixture.Asked.shell;
import static berth.e2e.fixture.Asked.source;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.client.call.TarPacker;
import berth.client.call.TarUnpacker;
import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Python;
import berth.e2e.fixture.RunServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelRunRequest;
import berth.v1.DownloadFilesRequest;
import berth.v1.ExitReason;
import berth.v1.Limits;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.Reservation;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent.EventCase;
import berth.v1.RunExited;
import berth.v1.UploadBundleResponse;
import berth.v1.UserId;
import berth.v1.WarningSignal;
import com.google.protobuf.ByteString;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Runs of an installed {@code berthd} in the containers of a real engine. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class DockerRunsTest {
  private static final long MIB = 1 << 20;

  @TempDir private static Path folder;
  private static Engine engine;
  private static GpuFile gpuFile;
  private static Path data;
  private static Path scratch;
  private static RunServer server;

  @BeforeAll
  static void start(Engine shared) throws IOException {
    engine = shared;
    gpuFile = new GpuFile(folder, 4);
    data = Files.createDirectory(folder.resolve("data"));
    scratch = Files.createDirectory(folder.resolve("scratch"));
    Path services =
        Files.writeString(
            folder.resolve("services.yaml"),
            """
            services:
              Shell:
                image: berth-test/busybox:1
                aliases: [shell-1.0]
                interpreter: [sh, -e]
                env: {GREETING: hello}
                shm: 32m
                processes: 50
                ulimits: {stack: 16777216}
            """);
    server =
        new RunServer(
            folder,
            "--name",
            "gpu01",
            "--docker",
            engine.host(),
            "--simulate-gpus",
            gpuFile.path().toString(),
            "--sample-interval",
            "100ms",
            "--services",
            services.toString(),
            "--allow-mount",
            data + ":ro," + scratch,
            "--caller-grace",
            "500ms");
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

  @Test
  void passesBothStreamsAndTheExitCode() {
    Heard heard = server.run(shell("echo to out; echo to err >&2; exit 7"));

    RunExited exited = heard.exited();
    assertThat(exited.getExitCode()).isEqualTo(7);
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(exited.getOutputBytes()).isEqualTo(14);
    assertThat(heard.outText()).isEqualTo("to out\n");
    assertThat(heard.errText()).isEqualTo("to err\n");
    assertThat(heard.kinds())
        .containsExactly(EventCase.ACCEPTED, EventCase.STARTED, EventCase.EXITED);
    assertThat(heard.await(EventCase.STARTED).getStarted().getIsolated()).isTrue();
  }

  @Test
  void aRunWithoutGpusSeesNone() {
    assertThat(gpuVariables(shell(VARIABLES)))
        .containsExactly(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=-1",
            "NVIDIA_VISIBLE_DEVICES=void");
  }

  @Test
  void aGpuIsNamedByItsNumberOnTheServerAndCountedFromZeroInside() {
    assertThat(gpuVariables(shell(VARIABLES).setGpus(gpus(2))))
        .containsExactly(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=0",
            "NVIDIA_VISIBLE_DEVICES=void",
            "NV_GPU=2");
  }

  @Test
  void twoGpusAreCountedFromZeroToo() {
    assertThat(gpuVariables(shell(VARIABLES).setGpus(gpus(1, 3))))
        .containsExactly(
            "CUDA_DEVICE_ORDER=PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES=0,1",
            "NVIDIA_VISIBLE_DEVICES=void",
            "NV_GPU=1,3");
  }

  private static final String VARIABLES = "env | grep -E '^(NV|CUDA)' | sort";

  private static List<String> gpuVariables(RunCodeRequest.Builder request) {
    Heard heard = server.run(request);
    assertThat(heard.exited().getExitCode()).isZero();
    return heard.outText().lines().toList();
  }

  @Test
  void tellsOfItsGpusAndPortsAndWhatTheyCost() {
    Heard heard =
        server.run(
            shell("echo $BERTH_PORTS $BERTH_SERVER $A")
                .setGpus(gpus(0, 1))
                .setPortCount(2)
                .putEnv("A", "b c"));

    RunExited exited = heard.exited();
    Reservation reserved = heard.await(EventCase.RESERVED).getReserved();
    assertThat(reserved.getGpusList()).extracting(gpu -> gpu.getIndex()).containsExactly(0, 1);
    assertThat(heard.outText())
        .isEqualTo(reserved.getPorts(0) + "," + reserved.getPorts(1) + " gpu01 b c\n");
    double wall = exited.getWallTime().getSeconds() + exited.getWallTime().getNanos() / 1e9;
    assertThat(exited.getGpuSeconds()).isEqualTo(2 * wall).isPositive();
  }

  @Test
  void runsASourceFileWithItsInterpreterAndArguments() {
    Heard heard =
        server.run(
            command("a b", "c")
                .setImage(Engine.IMAGE)
                .setSource(
                    source("-odd name.sh", "echo $0/$1/$2 $-")
                        .addInterpreter("sh")
                        .addInterpreter("-u")));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).startsWith("./-odd name.sh/a b/c ").contains("u");
  }

  @Test
  void theFirstLineOfASourceFileNamesItsInterpreter() {
    Heard heard =
        server.run(
            command()
                .setImage(Engine.IMAGE)
                .setSource(source("hello", "#!/bin/awk -f\nBEGIN { print 6 * 7 }\n")));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("42\n");
  }

  @Test
  void aBundleIsSentOnceItsFilesAreThereAndWhatTheRunMakesComesBack() throws Exception {
    Path project = Files.createDirectories(folder.resolve("project/src")).getParent();
    Files.writeString(project.resolve("src/text"), "from the bundle\n");
    Path packed = folder.resolve("project.tar");
    String digest = TarPacker.pack(project, packed);

    UploadBundleResponse first = upload(digest, packed);
    UploadBundleResponse second = upload(digest, packed);
    Heard heard =
        server.run(
            shell("mkdir -p model; cat text >model/copy; touch model/not.this; pwd")
                .setBundle(digest)
                .setWorkingDir("src")
                .addOutputs("src/model/c*"));

    assertThat(first.getKnown()).isFalse();
    assertThat(first.getBytes()).isEqualTo(Files.size(packed));
    assertThat(second.getKnown()).isTrue();
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("/work/src\n");
    Path fetched = download(heard.runId());
    assertThat(fetched.resolve("src/model/copy")).hasContent("from the bundle\n");
    assertThat(fetched.resolve("src/model/not.this")).doesNotExist();
  }

  @Test
  void smallFilesComeWithTheCodeInPlaceOfThoseOfTheBundleAndNeverThroughItsLinks()
      throws Exception {
    Path project = Files.createDirectories(folder.resolve("linked/src")).getParent();
    Files.writeString(project.resolve("src/text"), "from the bundle\n");
    Files.createSymbolicLink(project.resolve("link"), Path.of("src"));
    Path packed = folder.resolve("linked.tar");
    String digest = TarPacker.pack(project, packed);
    upload(digest, packed);
    ByteString content = ByteString.copyFromUtf8("from the request\n");

    Heard heard =
        server.run(
            shell("cd /; cat $BERTH_WORK/src/text /work/a/b; stat -c %u:%g $BERTH_WORK/a/b")
                .setBundle(digest)
                .setUser(UserId.newBuilder().setUid(1234).setGid(4321))
                .putFiles("src/text", content)
                .putFiles("a/b", content));
    Heard through = server.run(shell("true").setBundle(digest).putFiles("link/text", content));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("from the request\nfrom the request\n1234:4321\n");
    assertThat(through.failed())
        .hasMessage("file 'link/text' cannot be put beside the code: link is not a folder");
  }

  private static UploadBundleResponse upload(String digest, Path packed) throws IOException {
    try (InputStream tar = Files.newInputStream(packed)) {
      return server.runs().uploadBundle(digest, tar, RunServer.TIMEOUT);
    }
  }

  private static Path download(String runId, String... paths) throws IOException {
    ByteArrayOutputStream tar = new ByteArrayOutputStream();
    server
        .runs()
        .downloadFiles(
            DownloadFilesRequest.newBuilder().setRunId(runId).addAllPaths(List.of(paths)).build(),
            tar);
    Path fetched = Files.createTempDirectory(folder, "fetched");
    TarUnpacker.unpack(
        new ByteArrayInputStream(tar.toByteArray()),
        fetched,
        name -> name,
        TarUnpacker.Limits.bytes(4 * MIB));
    return fetched;
  }

  @Test
  void binaryOutputArrivesByteForByte() throws Exception {
    Heard heard =
        server.run(shell("head -c 3000000 /dev/urandom >random; cat random; cat random >&2"));

    assertThat(heard.exited().getExitCode()).isZero();
    byte[] random = Files.readAllBytes(download(heard.runId(), "random").resolve("random"));
    assertThat(random).hasSize(3_000_000);
    assertThat(heard.out()).isEqualTo(random);
    assertThat(heard.err()).isEqualTo(random);
  }

  @Test
  void theContainerHasTheLimitsAndNoPrivileges() throws Exception {
    Heard heard =
        server.run(
            shell("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; " + AWAIT_GO)
                .setGpus(gpus(3))
                .setLimits(
                    Limits.newBuilder()
                        .setMemoryBytes(64 * MIB)
                        .setCpus(1.5)
                        .setProcesses(20)
                        .setSharedMemoryBytes(16 * MIB)));
    String id = heard.await(EventCase.STARTED).getStarted().getContainerId();

    assertThat(engine.inspect(id, "{{.HostConfig.Memory}} {{.HostConfig.MemorySwap}}"))
        .isEqualTo(64 * MIB + " " + 64 * MIB);
    assertThat(
            engine.inspect(
                id, "{{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}} {{.HostConfig.ShmSize}}"))
        .isEqualTo("1500000000 20 " + 16 * MIB);
    assertThat(
            engine.inspect(
                id,
                "{{.HostConfig.Privileged}} {{.HostConfig.CapDrop}} {{.HostConfig.CapAdd}}"
                    + " {{.HostConfig.SecurityOpt}} {{.HostConfig.Init}}"
                    + " {{.HostConfig.NetworkMode}} {{.Config.Tty}}"))
        .isEqualTo("false [ALL] [] [no-new-privileges] true bridge false");
    assertThat(engine.inspect(id, "{{range $k, $v := .Config.Labels}}{{$k}}={{$v}}\n{{end}}"))
        .isEqualTo(
            "berth.gpus=3\nberth.owner=ann@laptop\nberth.run="
                + heard.runId()
                + "\nberth.server=gpu01\nberth.state="
                + server.state());

    go(heard);
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText())
        .isEqualTo("CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\n");
  }

  @Test
  void whoUsesMoreMemoryThanAllowedIsToldSo() {
    Heard heard =
        server.run(
            shell("exec tail -c 200000000 /dev/zero")
                .setLimits(Limits.newBuilder().setMemoryBytes(32 * MIB)));

    RunExited exited = heard.exited();
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_OUT_OF_MEMORY);
    assertThat(exited.getExitCode()).isEqualTo(137);
    assertThat(exited.getMessage()).isEqualTo("out of memory");
  }

  @Test
  void thereAreNoMoreProcessesThanAllowed() {
    Heard heard =
        server.run(
            shell("for i in $(seq 30); do sleep 9 & done; echo all")
                .setLimits(Limits.newBuilder().setProcesses(10)));

    assertThat(heard.exited().getExitCode()).isNotZero();
    assertThat(heard.errText()).contains("can't fork");
    assertThat(heard.outText()).isEmpty();
  }

  @Test
  void whenItsTimeIsOverARunIsWarnedAskedAndKilled() {
    Heard heard =
        server.run(
            shell(
                    "trap 'echo warned' USR1; trap 'echo asked' TERM; echo up;"
                        + " while :; do sleep 0.02; done")
                .setLimits(
                    grace(0.4)
                        .setTime(seconds(1.6))
                        .setWarning(
                            WarningSignal.newBuilder().setSignal("USR1").setBefore(seconds(0.8)))));

    RunExited exited = heard.exited();
    assertThat(heard.outText()).isEqualTo("up\nwarned\nasked\n");
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_TIME_LIMIT);
    assertThat(exited.getExitCode()).isEqualTo(137);
    assertThat(exited.getMessage()).isEqualTo("time limit of 1.6 s exceeded");
  }

  @Test
  void aCancelledRunMaySaveWhatItHasAndSaysWhoCancelledIt() {
    Heard heard = server.run(shell("trap 'echo saved; exit 3' TERM; echo up; sleep 100 & wait"));
    heard.awaitOutput(3);

    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(heard.runId()).setBy(Asked.BOB).build(),
            RunServer.TIMEOUT);

    RunExited exited = heard.exited();
    assertThat(heard.outText()).isEqualTo("up\nsaved\n");
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    assertThat(exited.getExitCode()).isEqualTo(3);
    assertThat(exited.getMessage()).isEqualTo("cancelled by bob@desk");
  }

  @Test
  void forceSkipsTheAsking() {
    Heard heard =
        server.run(shell("trap 'echo asked' TERM; echo up; while :; do sleep 0.02; done"));
    heard.awaitOutput(3);

    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder()
                .setRunId(heard.runId())
                .setBy(Asked.BOB)
                .setForce(true)
                .build(),
            RunServer.TIMEOUT);

    assertThat(heard.exited().getExitCode()).isEqualTo(137);
    assertThat(heard.outText()).isEqualTo("up\n");
  }

  @Test
  void runsAsTheUserThatWasAskedFor() {
    Heard heard =
        server.run(
            shell("id -u; id -g; touch mine && echo made; echo sees $(ls /work)")
                .setSource(
                    source("s.sh", "id -u; id -g; touch mine && ls -n s.sh mine | cut -c 1-30")
                        .addInterpreter("sh"))
                .clearCommand()
                .setUser(UserId.newBuilder().setUid(1234).setGid(4321)));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText().lines().limit(2)).containsExactly("1234", "4321");
    assertThat(heard.outText().lines().skip(2)).hasSize(2).allMatch(l -> l.contains("1234"));
  }

  @Test
  void theNetworkIsTheRunsOwnTheHostsOrNone() {
    assertThat(interfaces(Network.NETWORK_OWN)).containsExactlyInAnyOrder("lo", "eth0");
    assertThat(interfaces(Network.NETWORK_NONE)).containsExactly("lo");
    assertThat(interfaces(Network.NETWORK_HOST)).contains("lo", "docker0").doesNotContain("eth0");
  }

  private static List<String> interfaces(Network network) {
    Heard heard =
        server.run(
            shell("awk -F: 'NR > 2 { gsub(/ /, \"\"); print $1 }' /proc/net/dev")
                .setNetwork(network));
    assertThat(heard.exited().getExitCode()).isZero();
    return heard.outText().lines().toList();
  }

  @Test
  void mountsWhatTheAdministratorAllows() throws Exception {
    Files.writeString(data.resolve("set"), "data\n");

    Heard heard =
        server.run(
            shell("cat /data/set; echo new >" + scratch + "/result; touch /data/set || echo no")
                .addMounts(mount(data, "/data", true))
                .addMounts(mount(scratch, "", false)));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("data\nno\n");
    assertThat(scratch.resolve("result")).hasContent("new\n");
  }

  @Test
  void mountsNothingElse() throws Exception {
    Path link = Files.createSymbolicLink(scratch.resolve("link"), Path.of("/etc"));
    String allowed = ", the administrator allows " + data + " (read only), " + scratch;

    assertThat(denied(mount(Path.of("/etc"), "/x", true)))
        .isEqualTo("mount of /etc asked" + allowed);
    assertThat(denied(mount(data, "/data", false)))
        .isEqualTo("mount of " + data + " to write to asked" + allowed);
    assertThat(denied(mount(link, "/x", true))).isEqualTo("mount of " + link + " asked" + allowed);
  }

  private static String denied(Mount mount) {
    BerthException failure = server.run(shell("true").addMounts(mount)).failed();
    assertThat(failure.reason()).isEqualTo(Reason.DENIED);
    return failure.getMessage();
  }

  private static Mount mount(Path source, String target, boolean readOnly) {
    return Mount.newBuilder()
        .setSource(source.toString())
        .setTarget(target)
        .setReadOnly(readOnly)
        .build();
  }

  @Test
  void aServiceIsFoundByEveryNameAndBringsItsDefaults() {
    for (String name : List.of("shell", "SHELL", "Shell-1.0")) {
      Heard heard =
          server.run(
              command("you")
                  .setService(name)
                  .setSource(
                      source(
                          "s",
                          "echo $GREETING $1; ulimit -s; df -k /dev/shm | awk 'END{print $2}'")));

      assertThat(heard.exited().getExitCode()).isZero();
      assertThat(heard.outText()).isEqualTo("hello you\n16384\n32768\n");
    }
    assertThat(server.runs().listServices(RunServer.TIMEOUT).getServices(0).getAliasesList())
        .containsExactly("shell-1.0");
  }

  @Test
  void aRunInAReservationLeavesIt() {
    Reservation reserved = server.reserve(reservation(600, 1, 2));

    Heard heard = server.run(shell("echo $NV_GPU").setReservationId(reserved.getReservationId()));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("1,2\n");
    assertThat(server.held()).containsExactly(reserved.getReservationId());
    server.reservations().release(reserved.getReservationId(), RunServer.TIMEOUT);
  }

  @Test
  void aReservationThatEndsCancelsItsRunAndTheGpusAreFreeAfterThat() throws Exception {
    Reservation reserved = server.reserve(reservation(3, 1));
    Heard heard =
        server.run(
            shell("trap 'echo asked' TERM; echo up; " + AWAIT_GO)
                .setReservationId(reserved.getReservationId()));
    heard.awaitOutput(3);
    try (LockWaiter other = new LockWaiter(server.lockOfGpu(1))) {
      heard.awaitOutput(3 + 6);
      assertThat(other.hasTheLock()).isFalse();
      assertThatThrownBy(() -> server.reserve(reservation(1, 1))).hasMessageContaining("0 idle");
      go(heard);
      RunExited exited = heard.exited();
      assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
      assertThat(exited.getMessage()).isEqualTo("reservation ended");
      assertThat(other.gotIt()).isAfter(LockWaiter.instant(exited.getEndedAt()));
    }
  }

  @Test
  void aGpuWithAProcessOnItIsHeldBackUntilThatHasGone() {
    Heard heard = server.run(shell("echo up; " + AWAIT_GO).setGpus(gpus(0)));
    heard.awaitOutput(3);
    gpuFile.processOn(0, 4242);
    try {
      go(heard);

      assertThat(heard.exited().getHeldBack()).isEqualTo("process 4242 is still on GPU 0");
      assertThat(server.reservations().listReservations(RunServer.TIMEOUT).getReservationsList())
          .extracting(Reservation::getHeldBack)
          .containsExactly("process 4242 is still on GPU 0");
      assertThatThrownBy(() -> server.reserve(reservation(1, 0))).hasMessageContaining("0 idle");
    } finally {
      gpuFile.noProcesses();
    }
    await().until(() -> server.held().isEmpty());
    assertThat(server.attach(heard.runId(), 0).exited().getHeldBack()).isEmpty();
  }

  @Test
  void aRunEndsWhenItsCallerIsKilled() throws Exception {
    Process caller = berthRun("echo up; sleep 100");
    assertThat(caller.inputReader().readLine()).isEqualTo("up");
    String runId = newestRun();

    caller.destroyForcibly();

    RunExited exited = server.attach(runId, 0).exited();
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    assertThat(exited.getMessage()).isEqualTo("client disconnected");
  }

  @Test
  void aDetachedRunGoesOnWithoutAnybody() throws Exception {
    Heard heard = server.run(shell("echo up; " + AWAIT_GO + "; echo done").setDetached(true));
    String runId = heard.runId();
    await().until(() -> heard.kinds().equals(List.of(EventCase.ACCEPTED)));
    Heard reader = server.attach(runId, 0);
    reader.awaitOutput(3);
    reader.vanish();
    // Longer than the grace for callers of others.
    Heard other = server.run(shell("echo up; sleep 100"));
    other.awaitOutput(3);
    other.vanish();
    assertThat(server.attach(other.runId(), 0).exited().getReason())
        .isEqualTo(ExitReason.EXIT_REASON_CANCELLED);

    Files.createFile(server.runFolder(runId).resolve("work/go"));

    Heard all = server.attach(runId, 0);
    assertThat(all.exited().getReason()).isEqualTo(ExitReason.EXIT_REASON_FINISHED);
    assertThat(all.outText()).isEqualTo("up\ndone\n");
  }

  @Test
  void aRetryWithTheSameRequestIdIsTheSameRun() {
    RunCodeRequest.Builder request =
        shell("echo once; " + AWAIT_GO).setRequestId("the same").setGpus(gpus(2));
    Heard first = server.run(request);
    first.awaitOutput(5);
    Heard retry = server.run(request);
    retry.awaitOutput(5);

    go(first);

    assertThat(retry.runId()).isEqualTo(first.runId());
    assertThat(first.exited()).isEqualTo(retry.exited());
    assertThat(retry.outText()).isEqualTo("once\n").isEqualTo(first.outText());
  }

  @Test
  void aQueuedRunTellsItsPlaceAndWaitsNoLongerThanTold() {
    Reservation reserved = server.reserve(reservation(600, 0, 1, 2, 3));
    RunCodeRequest.Builder request = shell("true").setGpus(gpus(0));
    Heard first = server.run(request.setWait(waitSeconds(60)));
    first.await(EventCase.QUEUED);
    Heard second = server.run(request.setWait(waitSeconds(1)));

    assertThat(second.await(EventCase.QUEUED).getQueued().getAhead()).isEqualTo(1);
    BerthException late = second.failed();
    assertThat(late.reason()).isEqualTo(Reason.TIMED_OUT);
    assertThat(late.getMessage()).startsWith("1 GPU (0) asked, not granted within 1.0 s;");
    server.reservations().release(reserved.getReservationId(), RunServer.TIMEOUT);
    assertThat(first.exited().getExitCode()).isZero();
    assertThat(first.kinds())
        .startsWith(EventCase.ACCEPTED, EventCase.QUEUED)
        .endsWith(EventCase.RESERVED, EventCase.STARTED, EventCase.EXITED);
  }

  private static berth.v1.WaitTime waitSeconds(int seconds) {
    return berth.v1.WaitTime.newBuilder().setAtMost(seconds(seconds)).build();
  }

  @Test
  void aQueuedRunCanBeCancelled() {
    Reservation reserved = server.reserve(reservation(600, 0));
    Heard heard = server.run(shell("true").setGpus(gpus(0)).setWait(waitSeconds(60)));
    heard.await(EventCase.QUEUED);

    server
        .runs()
        .cancelRun(
            CancelRunRequest.newBuilder().setRunId(heard.runId()).setBy(Asked.BOB).build(),
            RunServer.TIMEOUT);

    assertThat(heard.failed()).hasMessage(heard.runId() + ": cancelled by bob@desk");
    RunExited exited = server.attach(heard.runId(), 0).exited();
    assertThat(exited.getReason()).isEqualTo(ExitReason.EXIT_REASON_CANCELLED);
    server.reservations().release(reserved.getReservationId(), RunServer.TIMEOUT);
  }

  @Test
  void realGpusAreAskedForByTheirUniqueNames() throws Exception {
    Path other = Files.createTempDirectory(folder, "nvml");
    GpuFile real = new GpuFile(other, 4);
    try (RunServer nvml =
        new RunServer(
            other,
            Map.of("NVML_SIM_FILE", real.path().toString()),
            "--docker",
            engine.host(),
            "--sample-interval",
            "100ms",
            "--nvml-library",
            Installed.home().resolve("lib/nvml-sim/libnvidia-ml.so.1").toString())) {
      assertThat(nvml.runs().listServices(RunServer.TIMEOUT).getRuntime().getGpuAccess())
          .isEqualTo("device requests");
      Heard heard = nvml.run(shell("env | grep -E '^(NV_|CUDA)' | sort").setGpus(gpus(1, 3)));

      assertThat(heard.exited().getExitCode()).isZero();
      assertThat(heard.outText())
          .isEqualTo("CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=0,1\nNV_GPU=1,3\n");
      String id = heard.await(EventCase.STARTED).getStarted().getContainerId();
      assertThat(engine.hookLog())
          .filteredOn(line -> line.startsWith(id))
          .singleElement()
          .asString()
          .contains("NVIDIA_VISIBLE_DEVICES=" + GpuFile.uuid(1) + "," + GpuFile.uuid(3));
      Heard none = nvml.run(shell("echo $NVIDIA_VISIBLE_DEVICES"));
      assertThat(none.exited().getExitCode()).isZero();
      assertThat(none.outText()).isEqualTo("void\n");
      nvml.assertNothingLeft();
      assertThat(engine.containersOf(nvml.state())).isEmpty();
    }
  }

  /** Its hook is not where the system has its programs, so nothing is asked for its version. */
  @Test
  void aToolkitThatMayMakeImagesRootIsShownAndLogged() throws Exception {
    Path other = Files.createTempDirectory(folder, "toolkit");
    GpuFile real = new GpuFile(other, 1);
    try (RunServer nvml =
        new RunServer(
            other,
            Map.of("NVML_SIM_FILE", real.path().toString()),
            "--docker",
            engine.host(),
            "--nvml-library",
            Installed.home().resolve("lib/nvml-sim/libnvidia-ml.so.1").toString())) {
      String warning =
          "NVIDIA container toolkit of an unknown version: UNSAFE, an image may become root on the"
              + " host; upgrade to 1.17.8 or later";
      assertThat(nvml.daemon().log()).contains(warning);
      assertThat(
              Installed.run(
                      Installed.command("berth"), "services", "--server", nvml.daemon().address())
                  .out())
          .contains(warning);
    }
  }

  @Test
  void aPythonClientNeedsNothingButTheProtos() {
    Installed.Result result =
        Installed.run(
            Python.script(
                    "run_code_by_reflection.py",
                    server.daemon().address(),
                    Engine.IMAGE,
                    "sh",
                    "-c",
                    "echo out; echo err >&2; exit 5")
                .toArray(String[]::new));

    assertThat(result.err()).isEqualTo("err\n");
    assertThat(result.out()).isEqualTo("accepted gpu01\nreserved 0\nstarted\nout\n");
    assertThat(result.exitCode()).isEqualTo(5);
  }

  private static Process berthRun(String script) throws IOException {
    return new ProcessBuilder(
            Installed.command("berth"),
            "run",
            "--server",
            server.daemon().address(),
            "--image",
            Engine.IMAGE,
            "--",
            "sh",
            "-c",
            script)
        .redirectError(ProcessBuilder.Redirect.DISCARD)
        .start();
  }

  private static String newestRun() {
    var runs = server.runs().listRuns(RunServer.TIMEOUT);
    return runs.getRuns(runs.getRunsCount() - 1).getRunId();
  }

  private static void go(Heard heard) {
    try {
      Files.createFile(server.runFolder(heard.runId()).resolve("work/go"));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }
}
