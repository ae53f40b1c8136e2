package berth.rpc;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.metrics.CallMetrics;
import berth.metrics.Metrics;
import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import berth.v1.RunServiceGrpc;
import berth.v1.RunServiceGrpc.RunServiceImplBase;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import io.grpc.BindableService;
import io.grpc.ServerInterceptors;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class CallMetricsTest {
  private static final String LIST = "berth.v1.GpuService/ListGpus";
  private static final String WATCH = "berth.v1.GpuService/WatchGpus";
  private static final String UPLOAD = "berth.v1.RunService/UploadBundle";

  private final Metrics metrics = new Metrics();
  private final AtomicLong clock = new AtomicLong();
  private Loopback loopback;

  @AfterEach
  void close() {
    loopback.close();
  }

  @Test
  void countsCallsAndMeasuresThem() {
    serve(
        new GpuServiceImplBase() {
          @Override
          public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
            passes(3);
            Replies.unary(observer, ListGpusResponse::getDefaultInstance);
          }
        });
    loopback.gpus().listGpus(ListGpusRequest.getDefaultInstance());
    loopback.gpus().listGpus(ListGpusRequest.getDefaultInstance());
    assertThat(lines())
        .contains(
            "berth_rpc_started_total{method=\"" + LIST + "\"} 2.0",
            finished(LIST, "OK", 2),
            latency(LIST, "count", "2"),
            latency(LIST, "sum", "6.0"));
  }

  @Test
  void countsFailuresByTheirStatus() {
    serve(
        new GpuServiceImplBase() {
          @Override
          public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
            passes(1);
            Replies.unary(
                observer,
                () -> {
                  throw new BerthException(Reason.EXHAUSTED, "2 GPUs asked, 1 idle");
                });
          }
        });
    fail();
    assertThat(lines())
        .contains(
            finished(LIST, "RESOURCE_EXHAUSTED", 1),
            finished(LIST, "OK", 0),
            latency(LIST, "sum", "1.0"));
  }

  @Test
  void aHandlerThatThrowsIsAnErrorAndNotACallerWhoLeft() {
    serve(
        new GpuServiceImplBase() {
          @Override
          public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
            throw new IllegalStateException("a fault of ours");
          }
        });
    fail();
    assertThat(lines())
        .contains(finished(LIST, "UNKNOWN", 1))
        .noneMatch(line -> line.contains("code=\"CANCELLED\""));
  }

  @Test
  void measuresAStreamUntilItsFirstMessage() throws InterruptedException {
    CountDownLatch more = new CountDownLatch(1);
    serve(
        new GpuServiceImplBase() {
          @Override
          public void watchGpus(
              WatchGpusRequest request, StreamObserver<WatchGpusResponse> observer) {
            passes(2);
            observer.onNext(WatchGpusResponse.getDefaultInstance());
            await(more);
            passes(60);
            observer.onNext(WatchGpusResponse.getDefaultInstance());
            observer.onCompleted();
          }
        });
    var reader = watch();
    reader.next();
    assertThat(lines())
        .contains(
            "berth_rpc_started_total{method=\"" + WATCH + "\"} 1.0", finished(WATCH, "OK", 0));
    more.countDown();
    assertThat(reader.rest()).hasSize(1);
    assertThat(lines())
        .contains(
            finished(WATCH, "OK", 1), latency(WATCH, "count", "1"), latency(WATCH, "sum", "2.0"));
  }

  @Test
  void aStreamThatSaidNothingHasNoLatency() throws InterruptedException {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch left = new CountDownLatch(1);
    serve(
        new GpuServiceImplBase() {
          @Override
          public void watchGpus(
              WatchGpusRequest request, StreamObserver<WatchGpusResponse> observer) {
            ((ServerCallStreamObserver<WatchGpusResponse>) observer)
                .setOnCancelHandler(left::countDown);
            begun.countDown();
          }
        });
    var reader = watch();
    await(begun);
    reader.cancel();
    await(left);
    assertThat(lines())
        .contains(
            finished(WATCH, "CANCELLED", 1),
            finished(WATCH, "OK", 0),
            latency(WATCH, "count", "0"));
  }

  @Test
  void measuresAnUploadFromItsEnd() {
    serve(
        new RunServiceImplBase() {
          @Override
          public StreamObserver<UploadBundleRequest> uploadBundle(
              StreamObserver<UploadBundleResponse> observer) {
            return new StreamObserver<>() {
              @Override
              public void onNext(UploadBundleRequest request) {
                passes(30);
              }

              @Override
              public void onError(Throwable failure) {}

              @Override
              public void onCompleted() {
                passes(1);
                Replies.unary(observer, UploadBundleResponse::getDefaultInstance);
              }
            };
          }
        });
    var reader = new Reader<UploadBundleRequest, UploadBundleResponse>();
    var requests = RunServiceGrpc.newStub(loopback.channel()).uploadBundle(reader);
    requests.onNext(UploadBundleRequest.getDefaultInstance());
    requests.onNext(UploadBundleRequest.getDefaultInstance());
    requests.onCompleted();
    assertThat(reader.rest()).hasSize(1);
    assertThat(lines()).contains(latency(UPLOAD, "sum", "1.0"));
  }

  @Test
  void aServerShowsAllItsMethodsBeforeAnybodyCalls() {
    loopback =
        Loopback.serving(
            new GpuServiceImplBase() {}, server -> server.record(new CallMetrics(metrics)));
    assertThat(lines())
        .contains(
            "berth_rpc_started_total{method=\"" + WATCH + "\"} 0.0",
            finished(LIST, "OK", 0),
            latency(LIST, "count", "0"));
    fail();
    assertThat(lines()).contains(finished(LIST, "UNIMPLEMENTED", 1));
  }

  private void serve(BindableService service) {
    CallMeter calls = new CallMeter(new CallMetrics(metrics), clock::get);
    loopback =
        Loopback.serving(
            () -> {
              var definition = service.bindService();
              calls.add(definition);
              return ServerInterceptors.intercept(definition, calls);
            });
  }

  private void passes(long seconds) {
    clock.addAndGet(TimeUnit.SECONDS.toNanos(seconds));
  }

  private void fail() {
    assertThatThrownBy(() -> loopback.gpus().listGpus(ListGpusRequest.getDefaultInstance()))
        .isInstanceOf(StatusRuntimeException.class);
  }

  private Reader<WatchGpusRequest, WatchGpusResponse> watch() {
    var reader = new Reader<WatchGpusRequest, WatchGpusResponse>();
    GpuServiceGrpc.newStub(loopback.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), reader);
    return reader;
  }

  private List<String> lines() {
    return new String(metrics.render("").body(), UTF_8).lines().toList();
  }

  private static String finished(String method, String code, int count) {
    return "berth_rpc_finished_total{code=\""
        + code
        + "\",method=\""
        + method
        + "\"} "
        + count
        + ".0";
  }

  private static String latency(String method, String what, String value) {
    return "berth_rpc_latency_seconds_" + what + "{method=\"" + method + "\"} " + value;
  }

  private static void await(CountDownLatch latch) {
    try {
      assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
