package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.StreamPump.Overflow;
import berth.v1.GpuHealthChange;
import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import com.google.protobuf.Timestamp;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;

class StreamPumpTest {
  // One such message fills gRPC's first flow control window, and eight the largest.
  private static final String MEBIBYTE = "x".repeat(1 << 20);
  private static final int MEBIBYTES_BUFFERED_BY_GRPC = 10;

  private final Reader<WatchGpusRequest, WatchGpusResponse> reader = new Reader<>();
  private final AtomicInteger ends = new AtomicInteger();
  private final CountDownLatch ended = new CountDownLatch(1);
  @AutoClose private Loopback loopback;

  @Test
  void aReaderThatKeepsUpGetsEverythingInOrder() throws Exception {
    var pump = callWith(1, new SkipReports());
    for (int i = 0; i < 200; i++) {
      pump.send(report(i, "gpu01"));
      assertThat(reader.next()).isEqualTo(report(i, "gpu01"));
    }
  }

  @Test
  void aReaderThatStallsMissesTheOldestReportsAndIsToldHowMany() {
    int capacity = 5;
    var pump = callWith(capacity, new SkipReports());
    for (int i = 0; i < 100; i++) {
      pump.send(report(i, MEBIBYTE));
    }
    pump.complete();

    var received = reader.rest();

    assertThat(received).hasSizeBetween(capacity, capacity + MEBIBYTES_BUFFERED_BY_GRPC);
    assertThat(received).extracting(StreamPumpTest::number).endsWith(95, 96, 97, 98, 99);
    assertThat(countedWithSkipped(received)).isEqualTo(100);
  }

  @Test
  void whatMayNotBeDroppedIsNeverLostAmongSkippedReports() {
    var pump = callWith(8, new SkipReports());
    for (int i = 0; i < 100; i++) {
      pump.send(i % 20 == 7 ? change(i, "GPU-a") : report(i, MEBIBYTE));
    }
    pump.complete();

    var received = reader.rest();

    assertThat(received)
        .filteredOn(WatchGpusResponse::hasHealthChange)
        .extracting(StreamPumpTest::number)
        .containsExactly(7, 27, 47, 67, 87);
    assertThat(received).hasSizeLessThan(100);
    assertThat(countedWithSkipped(received)).isEqualTo(100);
  }

  @Test
  void aReaderForWhichTooMuchPilesUpLosesTheCall() {
    var pump = callWith(4, new SkipReports());
    for (int i = 0; i < 50; i++) {
      pump.send(change(i, MEBIBYTE));
    }
    assertThat(ends).hasValue(1);

    var received = reader.rest();

    assertThat(received).hasSizeLessThan(MEBIBYTES_BUFFERED_BY_GRPC);
    assertThat(countedWithSkipped(received)).isEqualTo(received.size());
    assertThat(reader.status().getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
    assertThat(reader.status().getDescription())
        .isEqualTo("the client reads too slowly: 4 messages are waiting for it");
  }

  @Test
  void cancellingEndsTheCallExactlyOnce() throws Exception {
    var pump = callWith(4, new SkipReports());
    pump.send(report(0, MEBIBYTE));
    reader.next();

    reader.cancel();

    assertThat(ended.await(30, TimeUnit.SECONDS)).isTrue();
    pump.send(report(1, MEBIBYTE));
    pump.complete();
    pump.fail(new BerthException(Reason.CONFLICT, "too late"));
    assertThat(ends).hasValue(1);
  }

  @Test
  void completingDeliversWhatIsQueuedAndNothingAfterIt() throws Exception {
    var pump = callWith(50, Overflow.endCall());
    for (int i = 0; i < 20; i++) {
      pump.send(report(i, MEBIBYTE));
    }
    pump.complete();
    pump.send(report(20, MEBIBYTE));
    assertThat(ends).as("ended while messages were queued").hasValue(0);

    assertThat(reader.rest())
        .extracting(StreamPumpTest::number)
        .containsExactlyElementsOf(IntStream.range(0, 20).boxed().toList());
    assertThat(reader.status().isOk()).isTrue();
    // The caller may hear of the end a moment before the pump has told.
    assertThat(ended.await(30, TimeUnit.SECONDS)).isTrue();
    assertThat(ends).hasValue(1);
  }

  @Test
  void failingLeavesOutWhatIsQueued() throws Exception {
    var pump = callWith(50, Overflow.endCall());
    for (int i = 0; i < 40; i++) {
      pump.send(report(i, MEBIBYTE));
    }
    pump.fail(new BerthException(Reason.CONFLICT, "the server drains"));

    assertThat(reader.rest()).hasSizeLessThan(MEBIBYTES_BUFFERED_BY_GRPC);
    assertThat(reader.status().getCode()).isEqualTo(Status.Code.FAILED_PRECONDITION);
    assertThat(reader.status().getDescription()).isEqualTo("the server drains");
    assertThat(ended.await(30, TimeUnit.SECONDS)).isTrue();
    assertThat(ends).hasValue(1);
  }

  @Test
  void anActionForTheEndRunsAtOnceWhenTheEndHasCome() {
    var pump = callWith(1, Overflow.endCall());
    pump.complete();
    var late = new AtomicInteger();
    pump.onEnd(late::incrementAndGet);
    assertThat(late).hasValue(1);
  }

  @Test
  void manyThreadsMaySendAtOnce() {
    int threads = 8;
    int each = 500;
    var pump = callWith(threads * each, Overflow.endCall());
    var senders =
        IntStream.range(0, threads)
            .mapToObj(thread -> onOwnThread(() -> sendRange(pump, thread * each, each)))
            .toArray(CompletableFuture<?>[]::new);
    CompletableFuture.allOf(senders).thenRun(pump::complete);

    var received = reader.rest();

    for (int thread = 0; thread < threads; thread++) {
      int first = thread * each;
      assertThat(received)
          .extracting(StreamPumpTest::number)
          .filteredOn(number -> number >= first && number < first + each)
          .containsExactlyElementsOf(IntStream.range(first, first + each).boxed().toList());
    }
  }

  /** Calls a server that does nothing but make a pump, and returns the pump. */
  private StreamPump<WatchGpusResponse> callWith(
      int capacity, Overflow<WatchGpusResponse> overflow) {
    var made = new CompletableFuture<StreamPump<WatchGpusResponse>>();
    loopback =
        Loopback.serving(
            new GpuServiceImplBase() {
              @Override
              public void watchGpus(
                  WatchGpusRequest request, StreamObserver<WatchGpusResponse> observer) {
                var pump = new StreamPump<>(observer, capacity, overflow);
                pump.onEnd(
                    () -> {
                      ends.incrementAndGet();
                      ended.countDown();
                    });
                made.complete(pump);
              }
            });
    GpuServiceGrpc.newStub(loopback.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), reader);
    return made.orTimeout(30, TimeUnit.SECONDS).join();
  }

  private static CompletableFuture<Void> onOwnThread(Runnable work) {
    return CompletableFuture.runAsync(work, task -> new Thread(task).start());
  }

  private static void sendRange(StreamPump<WatchGpusResponse> pump, int first, int count) {
    for (int i = first; i < first + count; i++) {
      pump.send(report(i, MEBIBYTE.substring(0, 8 << 10)));
    }
  }

  private static WatchGpusResponse report(int number, String server) {
    return WatchGpusResponse.newBuilder()
        .setReport(
            GpuReport.newBuilder()
                .setServer(server)
                .setSampledAt(Timestamp.newBuilder().setSeconds(number)))
        .build();
  }

  private static WatchGpusResponse change(int number, String uuid) {
    return WatchGpusResponse.newBuilder()
        .setHealthChange(GpuHealthChange.newBuilder().setIndex(number).setUuid(uuid))
        .build();
  }

  private static int number(WatchGpusResponse response) {
    return response.hasHealthChange()
        ? response.getHealthChange().getIndex()
        : (int) response.getReport().getSampledAt().getSeconds();
  }

  /** How many were sent, if each response says truly how many are missing directly before it. */
  private static int countedWithSkipped(List<WatchGpusResponse> received) {
    int next = 0;
    for (WatchGpusResponse response : received) {
      next += response.getSkippedSamples();
      assertThat(number(response)).isEqualTo(next);
      next++;
    }
    return next;
  }

  private static final class SkipReports implements Overflow<WatchGpusResponse> {
    @Override
    public boolean mayDrop(WatchGpusResponse response) {
      return response.hasReport();
    }

    @Override
    public WatchGpusResponse afterSkipping(WatchGpusResponse response, int skipped) {
      return response.toBuilder().setSkippedSamples(skipped).build();
    }
  }
}
