package berth.e2e.runs;

import static berth.e2e.fixture.Asked.command;
import static berth.e2e.fixture.Asked.gpus;
import static berth.e2e.fixture.Asked.seconds;
import static berth.e2e.fixture.Asked.shell;
import static berth.e2e.fixture.Asked.source;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import berth.e2e.fixture.Engine;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.RunServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelRunRequest;
import berth.v1.Lifetime;
import berth.v1.Limits;
import berth.v1.ReserveRequest;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.zip.GZIPOutputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** What cannot be run: one sentence says why, and nothing is left. */
@Tag("docker")
@ExtendWith(Engine.Shared.class)
class RunRefusalsTest {
  @TempDir private static Path folder;
  private static Engine engine;
  private static RunServer server;

  @BeforeAll
  static void start(Engine shared) {
    engine = shared;
    server =
        new RunServer(
            folder,
            "--name",
            "gpu01",
            "--docker",
            engine.host(),
            "--simulate-gpus",
            "2",
            "--bundle-limit",
            "64k");
  }

  @AfterEach
  void leavesNothing() {
    server.assertNothingLeft();
    assertThat(engine.containersOf(server.state())).isEmpty();
    assertThat(Leftovers.filesIn(server.state().resolve("bundles"))).isEmpty();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @Test
  void limitsBelowZero() {
    assertThat(invalid(limits(Limits.newBuilder().setMemoryBytes(-1))))
        .isEqualTo("-1 bytes of memory asked; the least is 6 MiB");
    assertThat(invalid(limits(Limits.newBuilder().setCpus(-0.5))))
        .isEqualTo("-0.5 CPUs asked; ask for 0.01 or more");
    assertThat(invalid(limits(Limits.newBuilder().setProcesses(-3))))
        .isEqualTo("-3 processes asked; ask for 1 or more");
    assertThat(invalid(limits(Limits.newBuilder().setSharedMemoryBytes(-1))))
        .isEqualTo("-1 bytes of shared memory asked; ask for 1 or more");
    assertThat(invalid(limits(Limits.newBuilder().setTime(seconds(-2)))))
        .isEqualTo("a time limit of -2.0 s asked; it must be above 0");
    assertThat(invalid(limits(Limits.newBuilder().setStopGrace(seconds(-2)))))
        .isEqualTo("a grace of -2 s asked; it must be between 0 and an hour");
  }

  private static RunCodeRequest.Builder limits(Limits.Builder limits) {
    return shell("true").setLimits(limits);
  }

  @Test
  void variablesThatAreBerths() {
    for (String name :
        new String[] {
          "NV_GPU", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_X", "BERTH_RUN_ID"
        }) {
      assertThat(invalid(shell("true").putEnv(name, "0")))
          .isEqualTo(
              "the variable " + name + " is set by Berth from the reserved GPUs; leave it out");
    }
  }

  @Test
  void whatDoesNotExist() {
    int before = server.runs().listRuns(RunServer.TIMEOUT).getRunsCount();
    assertThat(refused(Reason.NOT_FOUND, command("true").setService("nope")))
        .isEqualTo("there is no service 'nope'; this server has no services");
    assertThat(refused(Reason.NOT_FOUND, shell("true").setBundle("0".repeat(64))))
        .startsWith("there is no bundle 000000");
    assertThat(refused(Reason.NOT_FOUND, shell("true").setReservationId("r-nope")))
        .contains("r-nope")
        .doesNotContain("\n");
    assertThat(server.runs().listRuns(RunServer.TIMEOUT).getRunsCount()).isEqualTo(before);
    // Of a name that no registry can have: one that cannot be reached would be waited for.
    String image = "berth.invalid/no-such-image:1";
    assertThat(refused(Reason.NOT_FOUND, command("true").setImage(image).setGpus(gpus(0))))
        .startsWith("image " + image + " is not on this server and cannot be pulled: ")
        .doesNotContain("\n");
  }

  @Test
  void whoeverHearsThatItNeverStartedCanReleaseWhatItWasToUse() {
    // Some of them are cancelled when their containers exist already, some before.
    for (int i = 0; i < 10; i++) {
      String held =
          server
              .reserve(
                  ReserveRequest.newBuilder()
                      .setGpus(gpus(1))
                      .setLifetime(Lifetime.newBuilder().setDuration(seconds(60)))
                      .build())
              .getReservationId();
      RunCodeRequest request = shell("sleep 100").setReservationId(held).build();

      // If it was started, it ends without a failure.
      catchThrowableOfType(
          BerthException.class, () -> server.runs().runCode(request, this::cancelWhenReserved));

      server.reservations().release(held, RunServer.TIMEOUT);
      assertThat(server.held()).isEmpty();
    }
  }

  private void cancelWhenReserved(RunEvent event) {
    if (event.hasReserved()) {
      server
          .runs()
          .cancelRun(
              CancelRunRequest.newBuilder()
                  .setRunId(event.getReserved().getRunIds(0))
                  .setForce(true)
                  .build(),
              RunServer.TIMEOUT);
    }
  }

  @Test
  void whatCannotBeStarted() {
    assertThat(invalid(command("true")))
        .isEqualTo("no service or image given: use --service NAME or --image IMAGE");
    assertThat(invalid(command().setImage(Engine.IMAGE).setSource(source("x", "true"))))
        .startsWith("no interpreter for x: ");
    assertThat(invalid(shell("true").setGpus(gpus(7)))).contains("7").doesNotContain("\n");
    Heard missing = server.run(command("/no/such/program").setImage(Engine.IMAGE));
    assertThat(missing.exited().getExitCode()).isEqualTo(127);
    assertThat(missing.errText()).contains("/no/such/program");
  }

  @Test
  void bundlesWithWhatLeadsOut() throws IOException {
    assertThat(badTar(entry("/etc/passwd", "")))
        .isEqualTo("the entry '/etc/passwd' has an absolute path");
    assertThat(badTar(entry("a/../../b", "")))
        .isEqualTo("the entry 'a/../../b' leads out of the bundle with '..'");
    assertThat(badTar(link("a", "../b"))).endsWith("leads out of the bundle");
    assertThat(badTar(link("a", "/etc"))).endsWith("has an absolute target");
    TarArchiveEntry pipe = new TarArchiveEntry("p", TarConstants.LF_FIFO);
    assertThat(badTar(tar(pipe, new byte[0]))).isEqualTo("the entry 'p' is a named pipe");
    assertThat(badTar("not a tar at all".getBytes(StandardCharsets.UTF_8))).doesNotContain("\n");
    assertThat(badTar(new byte[0])).isEqualTo("the bundle is empty, not a tar");
  }

  @Test
  void bundlesThatAreTooLargePackedOrUnpacked() throws IOException {
    byte[] large = tar(new TarArchiveEntry("large"), new byte[100_000]);
    assertThat(upload(Reason.EXHAUSTED, large, digest(large)))
        .contains("64 KiB")
        .doesNotContain("\n");
    ByteArrayOutputStream bomb = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(bomb)) {
      gzip.write(tar(new TarArchiveEntry("bomb"), new byte[30_000_000]));
    }
    assertThat(bomb.size()).isLessThan(65536);
    assertThat(upload(Reason.EXHAUSTED, bomb.toByteArray(), digest(bomb.toByteArray())))
        .contains("256 KiB")
        .doesNotContain("\n");
  }

  @Test
  void aBundleThatIsNotWhatItsDigestSays() throws IOException {
    assertThat(upload(Reason.INVALID, entry("a", "b"), "0".repeat(64))).contains("0".repeat(64));
  }

  private static String badTar(byte[] tar) throws IOException {
    return upload(Reason.INVALID, tar, digest(tar));
  }

  private static String upload(Reason reason, byte[] tar, String digest) {
    BerthException failure =
        catchThrowableOfType(
            BerthException.class,
            () ->
                server
                    .runs()
                    .uploadBundle(digest, new ByteArrayInputStream(tar), RunServer.TIMEOUT));
    assertThat(failure.reason()).isEqualTo(reason);
    return failure.getMessage();
  }

  private static byte[] entry(String name, String content) throws IOException {
    return tar(new TarArchiveEntry(name, true), content.getBytes(StandardCharsets.UTF_8));
  }

  private static byte[] link(String name, String target) throws IOException {
    TarArchiveEntry link = new TarArchiveEntry(name, TarConstants.LF_SYMLINK);
    link.setLinkName(target);
    return tar(link, new byte[0]);
  }

  private static byte[] tar(TarArchiveEntry entry, byte[] content) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes)) {
      entry.setSize(content.length);
      tar.putArchiveEntry(entry);
      tar.write(content);
      tar.closeArchiveEntry();
    }
    return bytes.toByteArray();
  }

  private static String digest(byte[] content) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(content));
    } catch (java.security.NoSuchAlgorithmException e) {
      throw new AssertionError(e);
    }
  }

  private static String invalid(RunCodeRequest.Builder request) {
    return refused(Reason.INVALID, request);
  }

  private static String refused(Reason reason, RunCodeRequest.Builder request) {
    BerthException failure = server.run(request).failed();
    assertThat(failure.reason()).isEqualTo(reason);
    return failure.getMessage();
  }
}
