package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.BlockingStream;
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
import java.util.OptionalLong;

/** Speaks gRPC for {@link Runs}; decides nothing itself. */
public final class RunGrpcService extends RunServiceGrpc.RunServiceImplBase {
  private final String serverName;
  private final Runs runs;
  private final RunMessages messages;

  public RunGrpcService(String serverName, Runs runs) {
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
    return new Upload(observer);
  }

  @Override
  public void downloadFiles(
      DownloadFilesRequest request, StreamObserver<DownloadFilesResponse> observer) {
    BlockingStream<DownloadFilesResponse> stream = new BlockingStream<>(observer);
    runs.threads()
        .execute(
            () ->
                stream.serve(
                    () -> {
                      try (Pieces pieces = new Pieces(stream)) {
                        runs.download(request.getRunId(), request.getPathsList(), pieces);
                      }
                    }));
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

  /** One upload. gRPC calls it from one thread at a time. */
  private final class Upload implements StreamObserver<UploadBundleRequest> {
    private final StreamObserver<UploadBundleResponse> observer;
    private Bundles.Upload upload;
    private boolean answered;

    Upload(StreamObserver<UploadBundleResponse> observer) {
      this.observer = observer;
    }

    @Override
    public void onNext(UploadBundleRequest request) {
      if (answered) {
        return;
      }
      try {
        if (request.hasDigest()) {
          begin(request.getDigest());
        } else if (upload == null) {
          throw new BerthException(Reason.INVALID, "the digest must come before the data");
        } else {
          upload.write(request.getData().asReadOnlyByteBuffer());
        }
      } catch (RuntimeException e) {
        fail(e);
      }
    }

    private void begin(String digest) {
      if (upload != null) {
        throw new BerthException(Reason.INVALID, "a second digest came in one upload");
      }
      if (runs.bundles().has(digest)) {
        answer(digest, 0, true);
      } else {
        upload = runs.bundles().begin(digest);
      }
    }

    @Override
    public void onError(Throwable gone) {
      discard();
    }

    @Override
    public void onCompleted() {
      if (answered) {
        return;
      }
      try {
        if (upload == null) {
          throw new BerthException(Reason.INVALID, "nothing was uploaded");
        }
        Bundles.Bundle bundle = upload.finish();
        answer(bundle.digest(), bundle.bytes(), false);
      } catch (RuntimeException e) {
        fail(e);
      }
    }

    private void answer(String digest, long bytes, boolean known) {
      answered = true;
      observer.onNext(
          UploadBundleResponse.newBuilder()
              .setDigest(digest)
              .setBytes(bytes)
              .setKnown(known)
              .build());
      observer.onCompleted();
    }

    private void fail(RuntimeException e) {
      answered = true;
      discard();
      observer.onError(Statuses.toException(e));
    }

    private void discard() {
      if (upload != null) {
        upload.close();
      }
    }
  }
}
