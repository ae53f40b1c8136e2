package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.rpc.Vitals;
import berth.server.reservation.Reservations;
import berth.server.run.process.ProcessRuntime;
import berth.v1.DownloadFilesRequest;
import berth.v1.DownloadFilesResponse;
import berth.v1.ListServicesRequest;
import berth.v1.RunCodeRequest;
import berth.v1.RunServiceGrpc;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Uploads and downloads of callers who take their time, on a server with one thread for calls. */
@Timeout(120)
class TransfersTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Duration NEVER = Duration.ofDays(1);

  @TempDir private Path folder;
  private final Gated durable = new Gated();
  private final ThreadPoolExecutor callThread =
      new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
  private GpuMonitor gpus;
  private Reservations reservations;
  private Runs runs;
  private RpcServer server;
  private RpcChannel channel;

  @BeforeEach
  void open() throws Exception {
    Files.createDirectory(folder.resolve("locks"));
    gpus =
        GpuMonitor.ofSimulation(
            "1", "", new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    gpus.awaitFirstSample(PATIENCE);
    Metrics metrics = new Metrics();
    reservations = OneServer.reservations(folder, gpus, durable, metrics);
    runs =
        Runs.open(
            OneServer.settings(folder, Disks.PLENTY),
            reservations,
            gpus,
            new ProcessRuntime(id -> Runs.folder(OneServer.state(folder), id), true),
            durable,
            new Vitals(),
            metrics);
  }

  private void serve(Duration uploadIdle) {
    server =
        RpcServer.listenOn(new Address("127.0.0.1", 0))
            .executor(callThread)
            .service(new RunGrpcService("gpu01", runs, uploadIdle))
            .start();
    channel = RpcChannel.to(server.address());
  }

  @AfterEach
  void close() {
    durable.gate.release(1000);
    channel.close();
    server.close();
    runs.close();
    reservations.close();
    gpus.close();
    durable.close();
    callThread.shutdown();
  }

  @Test
  void othersAreServedWhileBundlesAreCheckedAFewAtATime() throws Exception {
    serve(NEVER);
    durable.gated = true;
    List<Uploading> uploads = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      byte[] tar = new Tars().file("a" + i, "x").bytes();
      uploads.add(upload(Tars.sha256(tar)));
      uploads.get(i).send(tar);
      uploads.get(i).requests.onCompleted();
    }
    assertThat(durable.entered.tryAcquire(4, 60, TimeUnit.SECONDS)).isTrue();

    RunServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(60, TimeUnit.SECONDS)
        .listServices(ListServicesRequest.getDefaultInstance());

    uploads.forEach(upload -> assertThat(upload.status).isNotDone());
    durable.gate.release(1000);
    for (Uploading upload : uploads) {
      assertThat(upload.status.get(60, TimeUnit.SECONDS).isOk()).isTrue();
      assertThat(upload.answers).hasSize(1);
    }
    assertThat(durable.mostAtOnce).hasValue(4);
  }

  @Test
  void anUploadOfWhichNothingComesIsGivenUpAndLeavesNothing() throws Exception {
    serve(Duration.ofMillis(100));
    Uploading upload = upload("0".repeat(64));
    upload.send(new byte[1000]);

    Status status = upload.status.get(60, TimeUnit.SECONDS);

    assertThat(status.getCode()).isEqualTo(Status.Code.DEADLINE_EXCEEDED);
    assertThat(status.getDescription()).isEqualTo("no data of the bundle for 0 s");
    assertThat(files()).isEmpty();
  }

  @Test
  void oneClientHasNoMoreUploadsThanItMay() throws Exception {
    serve(NEVER);
    List<Uploading> uploads = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      uploads.add(upload(Integer.toString(i).repeat(64)));
    }
    await().atMost(PATIENCE).until(() -> files().size() == 8);

    Status refused = upload("8".repeat(64)).status.get(60, TimeUnit.SECONDS);

    assertThat(refused.getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
    assertThat(refused.getDescription())
        .isEqualTo("too many uploads: 8 connections of this client are open, the maximum");
    uploads.get(3).requests.onError(Status.CANCELLED.asException());
    await().atMost(PATIENCE).until(() -> files().size() == 7);
    upload("8".repeat(64));
    await().atMost(PATIENCE).until(() -> files().size() == 8);
  }

  @Test
  void oneClientHasNoMoreDownloadsThanItMay() throws Exception {
    serve(NEVER);
    Run run =
        runs.submit(
                RunCodeRequest.newBuilder()
                    .addCommand("true")
                    .putFiles("large", ByteString.copyFrom(new byte[4 << 20]))
                    .setDetached(true)
                    .build())
            .run();
    run.cleaned().get(60, TimeUnit.SECONDS);
    List<Downloading> unread = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      unread.add(download(run));
      unread.get(i).readOne();
    }

    Status refused = download(run).status.get(60, TimeUnit.SECONDS);

    assertThat(refused.getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
    assertThat(refused.getDescription())
        .isEqualTo("too many downloads: 8 connections of this client are open, the maximum");
    unread.get(5).requests.cancel("enough", null);
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              Downloading next = download(run);
              next.requests.request(1000);
              return next.status.get(60, TimeUnit.SECONDS).isOk();
            });
  }

  private List<Path> files() throws IOException {
    try (var files = Files.list(OneServer.state(folder).resolve("bundles"))) {
      return files.toList();
    }
  }

  private Uploading upload(String digest) {
    Uploading upload = new Uploading();
    upload.requests = RunServiceGrpc.newStub(channel.channel()).uploadBundle(upload);
    upload.requests.onNext(UploadBundleRequest.newBuilder().setDigest(digest).build());
    return upload;
  }

  private Downloading download(Run run) {
    Downloading download = new Downloading();
    RunServiceGrpc.newStub(channel.channel())
        .downloadFiles(
            DownloadFilesRequest.newBuilder().setRunId(run.id()).addPaths(".").build(), download);
    return download;
  }

  private static final class Uploading implements StreamObserver<UploadBundleResponse> {
    final CompletableFuture<Status> status = new CompletableFuture<>();
    final List<UploadBundleResponse> answers = new ArrayList<>();
    StreamObserver<UploadBundleRequest> requests;

    void send(byte[] data) {
      requests.onNext(UploadBundleRequest.newBuilder().setData(ByteString.copyFrom(data)).build());
    }

    @Override
    public void onNext(UploadBundleResponse answer) {
      answers.add(answer);
    }

    @Override
    public void onError(Throwable why) {
      status.complete(Status.fromThrowable(why));
    }

    @Override
    public void onCompleted() {
      status.complete(Status.OK);
    }
  }

  /** Reads nothing unless it is told to. */
  private static final class Downloading
      implements ClientResponseObserver<DownloadFilesRequest, DownloadFilesResponse> {
    final CompletableFuture<Status> status = new CompletableFuture<>();
    private final CountDownLatch first = new CountDownLatch(1);
    ClientCallStreamObserver<DownloadFilesRequest> requests;

    @Override
    public void beforeStart(ClientCallStreamObserver<DownloadFilesRequest> requests) {
      this.requests = requests;
      requests.disableAutoRequestWithInitial(0);
    }

    void readOne() throws InterruptedException {
      requests.request(1);
      assertThat(first.await(60, TimeUnit.SECONDS)).isTrue();
    }

    @Override
    public void onNext(DownloadFilesResponse piece) {
      first.countDown();
    }

    @Override
    public void onError(Throwable why) {
      status.complete(Status.fromThrowable(why));
    }

    @Override
    public void onCompleted() {
      status.complete(Status.OK);
    }
  }

  /** A disk that takes as long as the test wants to store a bundle. */
  private static final class Gated extends DurableFiles {
    final Semaphore entered = new Semaphore(0);
    final Semaphore gate = new Semaphore(0);
    final AtomicInteger mostAtOnce = new AtomicInteger();
    private final AtomicInteger atOnce = new AtomicInteger();
    volatile boolean gated;

    Gated() {
      super(new Vitals());
    }

    @Override
    public void flush(Path... flushed) throws IOException {
      if (gated) {
        mostAtOnce.accumulateAndGet(atOnce.incrementAndGet(), Math::max);
        entered.release();
        gate.acquireUninterruptibly();
        atOnce.decrementAndGet();
      }
      super.flush(flushed);
    }
  }
}
