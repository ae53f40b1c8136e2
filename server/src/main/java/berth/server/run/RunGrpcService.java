package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.BlockingStream;
import berth.rpc.Caller;
import berth.rpc.ClientCount;
import berth.rpc.Reason;
import berth.rpc.Replies;
import berth.rpc.Statuses;
import berth.rpc.StreamFeed;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.CancelRunResponse;
import berth.v1.DownloadFilesRequest;
import berth.v1.DownloadFilesResponse;
import berth.v1.GetRunRequest;
import berth.v1.GetRunResponse;
import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.ListServicesRequest;
import berth.v1.ListServicesResponse;
import berth.v1.RemoveRunRequest;
import berth.v1.RemoveRunResponse;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunServiceGrpc;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import com.google.protobuf.ByteString;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.RejectedExecutionException;

/** Speaks gRPC for {@link Runs}; decides nothing itself. */
public final class RunGrpcService extends RunServiceGrpc.RunServiceImplBase {
  // Each download has a thread and some memory, and each upload a file, whether or not anybody
  // reads or sends.
  private static final int MOST_DOWNLOADS = 32;
  private static final int MOST_UPLOADS = 64;
  private static final int MOST_OF_ONE_CLIENT = 8;
  private static final Duration UPLOAD_IDLE = Duration.ofSeconds(60);
  private static final Duration DOWNLOAD_PATIENCE = Duration.ofMinutes(10);

  private final String serverName;
  private final Runs runs;
  private final RunMessages messages;
  private final ClientCount downloads = new ClientCount(MOST_DOWNLOADS, MOST_OF_ONE_CLIENT);
  private final ClientCount uploads = new ClientCount(MOST_UPLOADS, MOST_OF_ONE_CLIENT);
  private final Duration uploadIdle;

  public RunGrpcService(String serverName, Runs runs) {
    this(serverName, runs, UPLOAD_IDLE);
  }

  /**
   * @param uploadIdle how long nothing may come of an upload
   */
  RunGrpcService(String serverName, Runs runs, Duration uploadIdle) {
    this.uploadIdle = uploadIdle;
    this.serverName = serverName;
    this.runs = runs;
    this.messages = new RunMessages(serverName);
  }

  @Override
  public void runCode(RunCodeRequest request, StreamObserver<RunEvent> observer) {
    Runs.Submitted submitted;
    try {
      submitted = runs.submit(request);
    } catch (RuntimeException e) {
      observer.onError(Statuses.toException(e));
      return;
    }
    Run run = submitted.run();
    feed(
        run,
        new RunReader(runs, run, messages, OptionalLong.of(0), true, true),
        submitted.unhold(),
        observer);
  }

  @Override
  public void attachRun(AttachRunRequest request, StreamObserver<RunEvent> observer) {
    Run run;
    OptionalLong offset;
    try {
      run = runs.find(request.getRunId());
      offset = RunMessages.offset(request);
    } catch (RuntimeException e) {
      observer.onError(Statuses.toException(e));
      return;
    }
    RunReader reader = new RunReader(runs, run, messages, offset, false, !request.getNoFollow());
    feed(run, reader, request.getHolding() ? run.hold() : () -> {}, observer);
  }

  // Whoever holds the run leaves it with the call, also if the call cannot even begin.
  private void feed(Run run, RunReader reader, Runnable unhold, StreamObserver<RunEvent> observer) {
    StreamFeed<RunEvent> feed;
    Runnable unlisten;
    try {
      feed = new StreamFeed<>(observer, reader, runs.threads());
      unlisten = run.listen(feed::wake);
    } catch (RuntimeException | Error e) {
      unhold.run();
      throw e;
    }
    feed.onEnd(
        () -> {
          unlisten.run();
          unhold.run();
          reader.close();
        });
    feed.wake();
  }

  @Override
  public void getRun(GetRunRequest request, StreamObserver<GetRunResponse> observer) {
    Replies.unary(
        observer,
        () ->
            GetRunResponse.newBuilder()
                .setRun(messages.run(runs.find(request.getRunId())))
                .build());
  }

  @Override
  public void listRuns(ListRunsRequest request, StreamObserver<ListRunsResponse> observer) {
    Replies.unary(observer, () -> new RunPages(serverName, runs.index(), messages).page(request));
  }

  @Override
  public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          runs.cancel(request.getRunId(), RunMessages.owner(request.getBy()), request.getForce());
          return CancelRunResponse.getDefaultInstance();
        });
  }

  @Override
  public void removeRun(RemoveRunRequest request, StreamObserver<RemoveRunResponse> observer) {
    Replies.unary(
        observer,
        () -> {
          runs.remove(request.getRunId());
          return RemoveRunResponse.getDefaultInstance();
        });
  }

  @Override
  public StreamObserver<UploadBundleRequest> uploadBundle(
      StreamObserver<UploadBundleResponse> observer) {
    return new UploadGrpcService(observer, runs, uploads, Caller.address(), uploadIdle);
  }

  @Override
  public void downloadFiles(
      DownloadFilesRequest request, StreamObserver<DownloadFilesResponse> observer) {
    SocketAddress client = Caller.address();
    Optional<String> refusal = downloads.add(client);
    if (refusal.isPresent()) {
      observer.onError(
          Statuses.toException(
              new BerthException(Reason.EXHAUSTED, "too many downloads: " + refusal.get())));
      return;
    }
    try {
      BlockingStream<DownloadFilesResponse> stream =
          new BlockingStream<>(observer, DOWNLOAD_PATIENCE);
      runs.threads()
          .execute(
              () -> {
                try {
                  stream.serve(
                      () -> {
                        try (Pieces pieces = new Pieces(stream)) {
                          runs.download(request.getRunId(), request.getPathsList(), pieces);
                        }
                      });
                } finally {
                  downloads.remove(client);
                }
              });
    } catch (RejectedExecutionException e) {
      downloads.remove(client);
      observer.onError(
          Statuses.toException(
              new BerthException(Reason.UNAVAILABLE, "this server is stopping", e)));
    }
  }

  @Override
  public void listServices(
      ListServicesRequest request, StreamObserver<ListServicesResponse> observer) {
    Replies.unary(
        observer,
        () ->
            ListServicesResponse.newBuilder()
                .addAllServices(runs.services().all().stream().map(RunMessages::service).toList())
                .setRuntime(RunMessages.runtime(runs.runtime()))
                .build());
  }

  /** Sends what is written in pieces. */
  private static final class Pieces extends OutputStream {
    private static final int SIZE = 64 << 10;

    private final BlockingStream<DownloadFilesResponse> stream;
    private final byte[] piece = new byte[SIZE];
    private int length;

    Pieces(BlockingStream<DownloadFilesResponse> stream) {
      this.stream = stream;
    }

    @Override
    public void write(int b) throws IOException {
      write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int from, int count) throws IOException {
      for (int done = 0; done < count; ) {
        int fits = Math.min(count - done, SIZE - length);
        System.arraycopy(bytes, from + done, piece, length, fits);
        length += fits;
        done += fits;
        if (length == SIZE) {
          sendPiece();
        }
      }
    }

    @Override
    public void close() throws IOException {
      if (length > 0) {
        sendPiece();
      }
    }

    private void sendPiece() throws IOException {
      try {
        stream.send(
            DownloadFilesResponse.newBuilder()
                .setData(ByteString.copyFrom(piece, 0, length))
                .build());
        length = 0;
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InterruptedIOException("this server is stopping");
      }
    }
  }
}
