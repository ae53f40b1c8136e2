package berth.client.call;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcChannel;
import berth.rpc.Statuses;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.DownloadFilesRequest;
import berth.v1.DownloadFilesResponse;
import berth.v1.GetRunRequest;
import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.ListServicesRequest;
import berth.v1.ListServicesResponse;
import berth.v1.RemoveRunRequest;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunSelection;
import berth.v1.RunServiceGrpc;
import berth.v1.RunServiceGrpc.RunServiceBlockingStub;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import com.google.protobuf.ByteString;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * The runs of one server. Any thread may call; every failure of a call is a {@link BerthException}.
 * A thread that is interrupted ends its call, and closing this ends all that still run.
 *
 * <p>A stream of events breaks with its connection. {@link FollowedRun} goes on with it.
 */
public final class RunClient implements AutoCloseable {
  private static final int PIECE_BYTES = 256 << 10;
  private static final int PAGE = 1000;

  private final RpcChannel channel;
  private final String peer;

  private RunClient(RpcChannel channel, String peer) {
    this.channel = channel;
    this.peer = peer;
  }

  /** A client of the {@code berthd} at {@code server}. It connects with its first call. */
  public static RunClient of(Address server) {
    return over(RpcChannel.to(server), server);
  }

  /** The same over a connection that others use too; closing one of them closes it. */
  static RunClient over(RpcChannel channel, Address server) {
    return new RunClient(channel, "berthd at " + server);
  }

  /**
   * Runs code, and passes what happens to {@code consumer} in the calling thread. Returns when the
   * server ends the stream; what the consumer throws ends it too, and is thrown here.
   */
  public void runCode(RunCodeRequest request, Consumer<RunEvent> consumer) {
    stream(stub -> stub.runCode(request), consumer);
  }

  /** Passes the events of a run that exists to {@code consumer}, as {@link #runCode} does. */
  public void attachRun(AttachRunRequest request, Consumer<RunEvent> consumer) {
    stream(stub -> stub.attachRun(request), consumer);
  }

  public Run getRun(String runId, Duration timeout) {
    return calling(
        stub ->
            within(stub, timeout)
                .getRun(GetRunRequest.newBuilder().setRunId(runId).build())
                .getRun());
  }

  /** All runs that the server knows, oldest first, page by page. */
  public ListRunsResponse listRuns(Duration timeout) {
    return oldestFirst(allPages(ListRunsRequest.getDefaultInstance(), timeout));
  }

  /** All runs of a kind, newest first. */
  public List<Run> listRuns(RunSelection selection, Duration timeout) {
    return allPages(ListRunsRequest.newBuilder().setSelection(selection).build(), timeout)
        .getRunsList();
  }

  /** A page of the runs, newest first. */
  public ListRunsResponse listRuns(ListRunsRequest request, Duration timeout) {
    return calling(stub -> within(stub, timeout).listRuns(request));
  }

  /**
   * The runs that have not ended and the newest of the others, oldest first; {@code total_count} is
   * how many there are in all.
   */
  public ListRunsResponse recentRuns(int mostEnded, Duration timeout) {
    // In this order: a run that ends between the two questions is in both answers, not in neither.
    ListRunsResponse.Builder all =
        allPages(
            ListRunsRequest.newBuilder()
                .setSelection(RunSelection.RUN_SELECTION_UNFINISHED)
                .build(),
            timeout);
    ListRunsResponse ended =
        listRuns(
            ListRunsRequest.newBuilder()
                .setSelection(RunSelection.RUN_SELECTION_ENDED)
                .setPageSize(mostEnded)
                .build(),
            timeout);
    Set<String> over = ended.getRunsList().stream().map(Run::getRunId).collect(Collectors.toSet());
    List<Run> unfinished =
        all.getRunsList().stream().filter(run -> !over.contains(run.getRunId())).toList();
    int twice = all.getRunsCount() - unfinished.size();
    return oldestFirst(
        all.clearRuns()
            .addAllRuns(unfinished)
            .addAllRuns(ended.getRunsList())
            .setTotalCount(all.getTotalCount() + ended.getTotalCount() - twice));
  }

  private ListRunsResponse.Builder allPages(ListRunsRequest request, Duration timeout) {
    ListRunsRequest next = request.toBuilder().setPageSize(PAGE).build();
    ListRunsResponse page = listRuns(next, timeout);
    ListRunsResponse.Builder all = page.toBuilder().clearNextPageToken();
    while (!page.getNextPageToken().isEmpty()) {
      page = listRuns(next.toBuilder().setPageToken(page.getNextPageToken()).build(), timeout);
      all.addAllRuns(page.getRunsList());
    }
    return all;
  }

  private static ListRunsResponse oldestFirst(ListRunsResponse.Builder newestFirst) {
    List<Run> runs = new ArrayList<>(newestFirst.getRunsList());
    Collections.reverse(runs);
    runs.sort(
        Comparator.comparingLong((Run run) -> run.getAcceptedAt().getSeconds())
            .thenComparingInt(run -> run.getAcceptedAt().getNanos()));
    return newestFirst.clearRuns().addAllRuns(runs).build();
  }

  /** Returns as soon as the server has taken note; the run's {@code exited} tells of its end. */
  public void cancelRun(CancelRunRequest request, Duration timeout) {
    calling(stub -> within(stub, timeout).cancelRun(request));
  }

  /** Forgets a run that has ended; its output and its files are deleted when this returns. */
  public void removeRun(String runId, Duration timeout) {
    calling(
        stub ->
            within(stub, timeout).removeRun(RemoveRunRequest.newBuilder().setRunId(runId).build()));
  }

  public ListServicesResponse listServices(Duration timeout) {
    return calling(
        stub -> within(stub, timeout).listServices(ListServicesRequest.getDefaultInstance()));
  }

  /**
   * Stores a bundle, no faster than the server takes it. Reads only the beginning of {@code tar} if
   * the server has the bundle already.
   *
   * @param digest the SHA-256 of {@code tar} in hexadecimal digits
   * @param timeout how long the server may take nothing, or leave the answer open
   * @throws IOException if {@code tar} cannot be read
   * @throws BerthException also if the server was too slow, or this thread was interrupted
   */
  public UploadBundleResponse uploadBundle(String digest, InputStream tar, Duration timeout)
      throws IOException {
    Upload upload = new Upload(timeout);
    RunServiceGrpc.newStub(channel.channel()).uploadBundle(upload);
    boolean finished = false;
    try {
      upload.send(UploadBundleRequest.newBuilder().setDigest(digest).build());
      byte[] piece = new byte[PIECE_BYTES];
      int length;
      while (upload.awaitReady() && (length = tar.readNBytes(piece, 0, piece.length)) > 0) {
        upload.send(
            UploadBundleRequest.newBuilder()
                .setData(ByteString.copyFrom(piece, 0, length))
                .build());
      }
      UploadBundleResponse response = upload.finish(peer);
      finished = true;
      return response;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "the upload was interrupted", e);
    } finally {
      if (!finished) {
        upload.cancel();
      }
    }
  }

  /**
   * Stores the files of a folder, see {@link TarPacker}, as a bundle, and returns its digest, which
   * {@code RunCodeRequest} wants. Costs little if the server has it already.
   *
   * @param timeout how long the server may take nothing, or leave the answer open
   * @throws IOException if something in the folder cannot be read
   * @throws BerthException as {@link #uploadBundle}, and if there is no such folder
   */
  public String uploadFolder(Path folder, Duration timeout) throws IOException {
    try (Bundle bundle = new Bundle(folder)) {
      return bundle.upload(this, timeout);
    }
  }

  /**
   * Writes the tar with the files to {@code tar}, in the calling thread, and leaves it open.
   *
   * @throws IOException if {@code tar} cannot be written
   */
  public void downloadFiles(DownloadFilesRequest request, OutputStream tar) throws IOException {
    Context.CancellableContext context = Context.current().withCancellation();
    Context before = context.attach();
    try {
      Iterator<DownloadFilesResponse> pieces =
          RunServiceGrpc.newBlockingStub(channel.channel()).downloadFiles(request);
      while (pieces.hasNext()) {
        pieces.next().getData().writeTo(tar);
        tar.flush();
      }
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    } finally {
      context.detach(before);
      context.cancel(null);
    }
  }

  @Override
  public void close() {
    channel.close();
  }

  /** Who is called, the same for all clients of one server. */
  String peer() {
    return peer;
  }

  /** Connects with the next call, however many attempts have failed. */
  void connectNow() {
    channel.connectNow();
  }

  private void stream(
      Function<RunServiceBlockingStub, Iterator<RunEvent>> call, Consumer<RunEvent> consumer) {
    // An iterator that is given up would leave its call open.
    Context.CancellableContext context = Context.current().withCancellation();
    try {
      context.run(
          () ->
              calling(
                  stub -> {
                    call.apply(stub).forEachRemaining(consumer);
                    return null;
                  }));
    } finally {
      context.cancel(null);
    }
  }

  private <T> T calling(Function<RunServiceBlockingStub, T> call) {
    try {
      return call.apply(RunServiceGrpc.newBlockingStub(channel.channel()));
    } catch (StatusRuntimeException e) {
      throw Statuses.fromStatus(e, peer);
    }
  }

  private static RunServiceBlockingStub within(RunServiceBlockingStub stub, Duration timeout) {
    return stub.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }

  /** The two directions of an upload: one thread sends, gRPC's threads tell of room and answer. */
  private static final class Upload
      implements ClientResponseObserver<UploadBundleRequest, UploadBundleResponse> {
    private final Duration timeout;
    private ClientCallStreamObserver<UploadBundleRequest> requests;
    private UploadBundleResponse response;
    private Throwable failure;
    private boolean over;

    Upload(Duration timeout) {
      this.timeout = timeout;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<UploadBundleRequest> requests) {
      this.requests = requests;
      requests.setOnReadyHandler(() -> update(() -> {}));
    }

    @Override
    public void onNext(UploadBundleResponse answer) {
      update(() -> response = answer);
    }

    @Override
    public void onError(Throwable why) {
      update(
          () -> {
            failure = why;
            over = true;
          });
    }

    @Override
    public void onCompleted() {
      update(() -> over = true);
    }

    void send(UploadBundleRequest request) {
      requests.onNext(request);
    }

    /** Blocks until the server has room for more. False: it has answered, and wants nothing. */
    synchronized boolean awaitReady() throws InterruptedException {
      await(() -> requests.isReady() || response != null);
      return response == null && !over;
    }

    /** Says that this was all, and returns the answer. */
    synchronized UploadBundleResponse finish(String peer) throws InterruptedException {
      if (!over) {
        requests.onCompleted();
      }
      await(() -> over);
      if (failure != null) {
        throw Statuses.fromStatus(failure, peer);
      }
      if (response == null) {
        throw new BerthException(Reason.INTERNAL, peer + " ended the upload without an answer");
      }
      return response;
    }

    void cancel() {
      requests.cancel("upload abandoned", null);
    }

    private synchronized void update(Runnable change) {
      change.run();
      notifyAll();
    }

    private void await(BooleanSupplier condition) throws InterruptedException {
      long deadline = System.nanoTime() + timeout.toNanos();
      while (!over && !condition.getAsBoolean()) {
        long left = deadline - System.nanoTime();
        if (left <= 0) {
          throw new BerthException(
              Reason.TIMED_OUT,
              "the server took nothing of the bundle for " + timeout.toSeconds() + " s");
        }
        TimeUnit.NANOSECONDS.timedWait(this, left);
      }
    }
  }
}
