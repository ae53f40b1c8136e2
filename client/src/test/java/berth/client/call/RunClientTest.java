package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRuns;
import berth.fake.Upload;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.DownloadFilesRequest;
import berth.v1.ListRunsResponse;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunState;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RunClientTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(20);
  private static final String DIGEST = "ab".repeat(32);

  private final FakeRuns server = new FakeRuns();
  private final RunClient client = RunClient.of(server.address());

  @AfterEach
  void close() {
    client.close();
    server.close();
  }

  @Test
  void uploadsABundleWholeInPieces() throws Exception {
    byte[] tar = bytes(3_000_000);
    AtomicReference<Upload> upload = new AtomicReference<>();
    server.onUpload = answer -> remember(upload, new Upload(answer, false));

    UploadBundleResponse response =
        client.uploadBundle(DIGEST, new ByteArrayInputStream(tar), TIMEOUT);

    assertThat(response.getDigest()).isEqualTo(DIGEST);
    assertThat(response.getBytes()).isEqualTo(tar.length);
    assertThat(upload.get().content.toByteArray()).isEqualTo(tar);
    assertThat(upload.get().pieces).allSatisfy(size -> assertThat(size).isBetween(1, 256 << 10));
  }

  @Test
  void uploadsAFolderAsTheBundleThatItsFilesMake(@TempDir Path folder) throws Exception {
    Path project = Files.createDirectory(folder.resolve("project"));
    Files.writeString(project.resolve("train.py"), "print(1)\n");
    Path tar = folder.resolve("expected.tar");
    String digest = TarPacker.pack(project, tar);
    AtomicReference<Upload> upload = new AtomicReference<>();
    server.onUpload = answer -> remember(upload, new Upload(answer, false));

    assertThat(client.uploadFolder(project, TIMEOUT)).isEqualTo(digest);
    assertThat(upload.get().content.toByteArray()).isEqualTo(Files.readAllBytes(tar));
  }

  @Test
  void stopsSendingABundleThatTheServerHas() throws Exception {
    server.onUpload = answer -> new Upload(answer, true);
    Endless tar = new Endless();

    // This tar has no end: only the server's answer can end the upload.
    assertThat(client.uploadBundle(DIGEST, tar, TIMEOUT).getKnown()).isTrue();
  }

  @Test
  void sendsNoFasterThanTheServerReads() {
    server.onUpload =
        answer -> {
          answer.disableAutoRequest();
          return new Upload(answer, false);
        };
    Endless tar = new Endless();

    assertThatThrownBy(() -> client.uploadBundle(DIGEST, tar, Duration.ofMillis(300)))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.TIMED_OUT));
    assertThat(tar.read).isLessThan(4 << 20);
  }

  @Test
  void saysWhyTheServerRefusesABundle() {
    server.onUpload = RunClientTest::refuse;

    assertThatThrownBy(() -> client.uploadBundle(DIGEST, new Endless(), TIMEOUT))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED))
        .hasMessage("the bundle is larger than 1 GiB");
  }

  @Test
  void downloadsWhatTheServerSends() throws Exception {
    server.files = bytes(5_500);
    ByteArrayOutputStream tar = new ByteArrayOutputStream();

    client.downloadFiles(DownloadFilesRequest.newBuilder().setRunId(FakeRuns.ID).build(), tar);

    assertThat(tar.toByteArray()).isEqualTo(server.files);
  }

  @Test
  void aFileThatCannotBeWrittenEndsTheDownload() {
    server.files = bytes(5_500);
    OutputStream full =
        new OutputStream() {
          @Override
          public void write(int b) throws java.io.IOException {
            throw new java.io.IOException("No space left on device");
          }
        };

    assertThatThrownBy(() -> client.downloadFiles(DownloadFilesRequest.getDefaultInstance(), full))
        .isInstanceOf(java.io.IOException.class)
        .hasMessage("No space left on device");
  }

  @Test
  void aConsumerThatThrowsEndsTheCall() throws Exception {
    CountDownLatch left = new CountDownLatch(1);
    server.onRun =
        (request, observer) -> {
          ((ServerCallStreamObserver<?>) observer).setOnCancelHandler(left::countDown);
          FakeRuns.send(observer, FakeRuns.accepted());
        };

    assertThatThrownBy(
            () ->
                client.runCode(
                    RunCodeRequest.getDefaultInstance(),
                    event -> {
                      throw new IllegalStateException("enough");
                    }))
        .isInstanceOf(IllegalStateException.class);
    assertThat(left.await(20, TimeUnit.SECONDS)).isTrue();
  }

  @Test
  void aRunThatEndsWhileTheRecentOnesAreListedIsAmongThemOnceAndHasEnded() {
    ListRunsResponse running =
        ListRunsResponse.newBuilder()
            .addRuns(Run.newBuilder().setRunId("run-a").setState(RunState.RUN_STATE_ENDED))
            .addRuns(Run.newBuilder().setRunId("run-b").setState(RunState.RUN_STATE_RUNNING))
            .addRuns(Run.newBuilder().setRunId("run-c").setState(RunState.RUN_STATE_RUNNING))
            .build();
    ListRunsResponse.Builder over = running.toBuilder();
    over.getRunsBuilder(1).setState(RunState.RUN_STATE_ENDED);
    server.runs = running;
    server.onList = () -> server.runs = over.build();

    ListRunsResponse recent = client.recentRuns(10, TIMEOUT);

    assertThat(recent.getRunsList()).containsExactlyInAnyOrderElementsOf(over.getRunsList());
    assertThat(recent.getTotalCount()).isEqualTo(3);
  }

  @Test
  void passesCallsAndTheirFailures() {
    Run run = Run.newBuilder().setRunId(FakeRuns.ID).setOutputBytes(7).build();
    server.runs = ListRunsResponse.newBuilder().addRuns(run).build();
    server.onAttach = (q, r) -> FakeRuns.fail(r, Reason.NOT_FOUND, "there is no run nope");

    assertThat(client.getRun(FakeRuns.ID, TIMEOUT)).isEqualTo(run);
    assertThat(client.listRuns(TIMEOUT).getRunsList()).isEqualTo(server.runs.getRunsList());
    assertThat(client.listServices(TIMEOUT)).isEqualTo(server.services);
    CancelRunRequest cancel = CancelRunRequest.newBuilder().setRunId(FakeRuns.ID).build();
    client.cancelRun(cancel, TIMEOUT);
    assertThat(server.cancelled).containsExactly(cancel);
    client.removeRun(FakeRuns.ID, TIMEOUT);
    assertThat(server.removed).containsExactly(FakeRuns.ID);
    assertThatThrownBy(() -> client.getRun("nope", TIMEOUT)).hasMessage("there is no run nope");
    assertThatThrownBy(() -> client.attachRun(AttachRunRequest.getDefaultInstance(), e -> {}))
        .isInstanceOf(BerthException.class)
        .hasMessage("there is no run nope");
  }

  private static Upload remember(AtomicReference<Upload> place, Upload upload) {
    place.set(upload);
    return upload;
  }

  private static StreamObserver<UploadBundleRequest> refuse(
      ServerCallStreamObserver<UploadBundleResponse> answer) {
    FakeRuns.fail(answer, Reason.EXHAUSTED, "the bundle is larger than 1 GiB");
    return new Upload(answer, false);
  }

  private static byte[] bytes(int length) {
    byte[] bytes = new byte[length];
    new Random(1).nextBytes(bytes);
    return bytes;
  }

  private static final class Endless extends InputStream {
    private volatile long read;

    @Override
    public int read() {
      read++;
      return 0;
    }

    @Override
    public int read(byte[] buffer, int offset, int length) {
      read += length;
      return length;
    }
  }
}
