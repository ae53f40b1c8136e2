package berth.fake;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.CancelRunResponse;
import berth.v1.DownloadFilesRequest;
import berth.v1.DownloadFilesResponse;
import berth.v1.ExitReason;
import berth.v1.GetRunRequest;
import berth.v1.GetRunResponse;
import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.ListServicesRequest;
import berth.v1.ListServicesResponse;
import berth.v1.OutputStream;
import berth.v1.Queued;
import berth.v1.RemoveRunRequest;
import berth.v1.RemoveRunResponse;
import berth.v1.Run;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import berth.v1.RunSelection;
import berth.v1.RunServiceGrpc;
import berth.v1.RunStarted;
import berth.v1.RunState;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import com.google.protobuf.ByteString;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BiConsumer;
import java.util.function.Function;

/**
 * A server of runs on loopback that runs nothing: a test says how each call is answered, and reads
 * what was asked.
 */
public final class FakeRuns extends RunServiceGrpc.RunServiceImplBase implements AutoCloseable {
  public static final String ID = "run-6b1fd2c9aa";

  public final LinkedBlockingQueue<RunCodeRequest> asked = new LinkedBlockingQueue<>();
  public final List<AttachRunRequest> attached = new CopyOnWriteArrayList<>();
  public final LinkedBlockingQueue<CancelRunRequest> cancelled = new LinkedBlockingQueue<>();
  public final List<String> removed = new CopyOnWriteArrayList<>();
  public final List<DownloadFilesRequest> downloaded = new CopyOnWriteArrayList<>();

  public volatile BiConsumer<RunCodeRequest, StreamObserver<RunEvent>> onRun = (q, r) -> end(r);
  public volatile BiConsumer<AttachRunRequest, StreamObserver<RunEvent>> onAttach =
      (q, r) -> end(r);
  public volatile BiConsumer<CancelRunRequest, StreamObserver<CancelRunResponse>> onCancel =
      (q, r) -> {
        r.onNext(CancelRunResponse.getDefaultInstance());
        r.onCompleted();
      };
  public volatile Function<
          ServerCallStreamObserver<UploadBundleResponse>, StreamObserver<UploadBundleRequest>>
      onUpload;
  public volatile byte[] files = new byte[0];
  public volatile ListRunsResponse runs = ListRunsResponse.getDefaultInstance();
  public volatile boolean listsRuns = true;
  public volatile int pageSize = 1000;

  /** Runs when a list is made and before it is sent. */
  public volatile Runnable onList = () -> {};

  public volatile ListServicesResponse services = ListServicesResponse.getDefaultInstance();

  private volatile Runnable onStop = () -> {};
  private RpcServer server = listen(new Address("127.0.0.1", 0));

  public Address address() {
    return server.address();
  }

  /** Stops, breaks off {@code stream} as it goes, and comes back at the same address. */
  public void restart(StreamObserver<RunEvent> stream) {
    Address address = server.address();
    onStop = () -> breakOff(stream);
    server.close();
    onStop = () -> {};
    server = listen(address);
  }

  @Override
  public void close() {
    server.close();
  }

  private RpcServer listen(Address address) {
    return RpcServer.listenOn(address).service(this).endStreams(() -> onStop.run()).start();
  }

  public static RunEvent accepted() {
    return RunEvent.newBuilder()
        .setAccepted(RunAccepted.newBuilder().setRunId(ID).setServer("gpu01"))
        .build();
  }

  public static RunEvent queued(int ahead) {
    return RunEvent.newBuilder().setQueued(Queued.newBuilder().setAhead(ahead)).build();
  }

  public static RunEvent started() {
    return RunEvent.newBuilder().setStarted(RunStarted.newBuilder().setIsolated(true)).build();
  }

  public static RunEvent output(long offset, String text) {
    return output(OutputStream.OUTPUT_STREAM_STDOUT, offset, text);
  }

  public static RunEvent output(OutputStream stream, long offset, String text) {
    return RunEvent.newBuilder()
        .setOutput(
            RunOutput.newBuilder()
                .setStream(stream)
                .setOffset(offset)
                .setData(ByteString.copyFromUtf8(text)))
        .build();
  }

  public static RunEvent exited(ExitReason reason, int exitCode, String message) {
    return RunEvent.newBuilder()
        .setExited(
            RunExited.newBuilder().setReason(reason).setExitCode(exitCode).setMessage(message))
        .build();
  }

  public static RunEvent finished() {
    return exited(ExitReason.EXIT_REASON_FINISHED, 0, "");
  }

  /** Sends {@code events} and ends the stream well. */
  public static void end(StreamObserver<RunEvent> observer, RunEvent... events) {
    send(observer, events);
    observer.onCompleted();
  }

  /** Sends {@code events} and breaks the stream, as a server that stops. */
  public static void breakOff(StreamObserver<RunEvent> observer, RunEvent... events) {
    send(observer, events);
    fail(observer, Reason.UNAVAILABLE, "gpu01 stops");
  }

  public static void send(StreamObserver<RunEvent> observer, RunEvent... events) {
    for (RunEvent event : events) {
      observer.onNext(event);
    }
  }

  public static void fail(StreamObserver<?> observer, Reason reason, String message) {
    observer.onError(Statuses.toException(new BerthException(reason, message)));
  }

  @Override
  public void runCode(RunCodeRequest request, StreamObserver<RunEvent> observer) {
    asked.add(request);
    onRun.accept(request, observer);
  }

  @Override
  public void attachRun(AttachRunRequest request, StreamObserver<RunEvent> observer) {
    attached.add(request);
    onAttach.accept(request, observer);
  }

  @Override
  public void getRun(GetRunRequest request, StreamObserver<GetRunResponse> observer) {
    for (Run run : runs.getRunsList()) {
      if (run.getRunId().equals(request.getRunId())) {
        observer.onNext(GetRunResponse.newBuilder().setRun(run).build());
        observer.onCompleted();
        return;
      }
    }
    fail(observer, Reason.NOT_FOUND, "there is no run " + request.getRunId());
  }

  @Override
  public void listRuns(ListRunsRequest request, StreamObserver<ListRunsResponse> observer) {
    if (!listsRuns) {
      fail(observer, Reason.UNAVAILABLE, "lost");
      return;
    }
    List<Run> matching = new ArrayList<>(runs.getRunsList());
    matching.removeIf(
        run ->
            !run.getRunId().startsWith(request.getIdPrefix())
                || (!request.getRequestId().isEmpty()
                    && !run.getRequest().getRequestId().equals(request.getRequestId()))
                || (request.getSelection() == RunSelection.RUN_SELECTION_UNFINISHED
                    && run.getState() == RunState.RUN_STATE_ENDED)
                || (request.getSelection() == RunSelection.RUN_SELECTION_ENDED
                    && run.getState() != RunState.RUN_STATE_ENDED));
    Collections.reverse(matching);
    ListRunsResponse.Builder page = runs.toBuilder().clearRuns().setTotalCount(matching.size());
    int from = request.getPageToken().isEmpty() ? 0 : Integer.parseInt(request.getPageToken());
    int to = Math.min(matching.size(), from + Math.min(pageSize, request.getPageSize()));
    page.addAllRuns(matching.subList(from, to));
    if (to < matching.size()) {
      page.setNextPageToken(Integer.toString(to));
    }
    onList.run();
    observer.onNext(page.build());
    observer.onCompleted();
  }

  @Override
  public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> observer) {
    cancelled.add(request);
    onCancel.accept(request, observer);
  }

  @Override
  public void removeRun(RemoveRunRequest request, StreamObserver<RemoveRunResponse> observer) {
    removed.add(request.getRunId());
    observer.onNext(RemoveRunResponse.getDefaultInstance());
    observer.onCompleted();
  }

  @Override
  public StreamObserver<UploadBundleRequest> uploadBundle(
      StreamObserver<UploadBundleResponse> observer) {
    return onUpload.apply((ServerCallStreamObserver<UploadBundleResponse>) observer);
  }

  @Override
  public void downloadFiles(
      DownloadFilesRequest request, StreamObserver<DownloadFilesResponse> observer) {
    downloaded.add(request);
    int piece = 1000;
    for (int start = 0; start < files.length; start += piece) {
      int length = Math.min(piece, files.length - start);
      observer.onNext(
          DownloadFilesResponse.newBuilder()
              .setData(ByteString.copyFrom(files, start, length))
              .build());
    }
    observer.onCompleted();
  }

  @Override
  public void listServices(
      ListServicesRequest request, StreamObserver<ListServicesResponse> observer) {
    observer.onNext(services);
    observer.onCompleted();
  }
}
