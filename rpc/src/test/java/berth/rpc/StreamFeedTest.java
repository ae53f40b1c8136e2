package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;

class StreamFeedTest {
  private static final String MEBIBYTE = "x".repeat(1 << 20);
  private static final int MEBIBYTES_BUFFERED_BY_GRPC = 10;

  private final Reader<WatchGpusRequest, WatchGpusResponse> reader = new Reader<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private final ExecutorService executor = Executors.newCachedThreadPool();
  private final Numbers source = new Numbers();
  @AutoClose private Loopback loopback;

  @AfterEach
  void stop() {
    executor.shutdownNow();
  }

  @Test
  void everythingIsSentInOrderAndThenTheCallEnds() {
    StreamFeed<WatchGpusResponse> feed = call();
    source.available = 500;
    feed.wake();
    source.last = 1000;
    source.available = 1000;
    feed.wake();

    assertThat(reader.rest())
        .extracting(StreamFeedTest::number)
        .containsExactlyElementsOf(IntStream.range(0, 1000).boxed().toList());
    assertThat(reader.status()).isEqualTo(Status.OK);
  }

  @Test
  void theSourceOfAReaderThatStallsIsLeftAlone() throws Exception {
    source.text = MEBIBYTE;
    source.available = 1000;
    source.last = 60;
    StreamFeed<WatchGpusResponse> feed = call();
    feed.wake();
    reader.next();

    for (int i = 0; i < 100; i++) {
      feed.wake();
    }
    executor.submit(() -> {}).get();
    assertThat(source.asked.get()).isLessThanOrEqualTo(MEBIBYTES_BUFFERED_BY_GRPC);

    assertThat(reader.rest()).hasSize(59);
  }

  @Test
  void aFailureOfTheSourceIsTheCallers() throws Exception {
    StreamFeed<WatchGpusResponse> feed = call();
    source.failure = new BerthException(Reason.NOT_FOUND, "there is no such run");
    feed.wake();

    assertThat(reader.rest()).isEmpty();
    assertThat(reader.status().getCode()).isEqualTo(Status.Code.NOT_FOUND);
    assertThat(ended.await(10, TimeUnit.SECONDS)).isTrue();
  }

  @Test
  void aCallerWhoGoesEndsIt() throws Exception {
    StreamFeed<WatchGpusResponse> feed = call();
    source.available = 1;
    feed.wake();
    reader.next();

    reader.cancel();

    assertThat(ended.await(10, TimeUnit.SECONDS)).isTrue();
    source.available = 10;
    feed.wake();
    assertThat(source.asked.get()).isEqualTo(1);
  }

  private StreamFeed<WatchGpusResponse> call() {
    CompletableFuture<StreamFeed<WatchGpusResponse>> made = new CompletableFuture<>();
    loopback =
        Loopback.serving(
            new GpuServiceImplBase() {
              @Override
              public void watchGpus(
                  WatchGpusRequest request, StreamObserver<WatchGpusResponse> observer) {
                StreamFeed<WatchGpusResponse> feed = new StreamFeed<>(observer, source, executor);
                feed.onEnd(ended::countDown);
                made.complete(feed);
              }
            });
    GpuServiceGrpc.newStub(loopback.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), reader);
    return made.orTimeout(30, TimeUnit.SECONDS).join();
  }

  private static int number(WatchGpusResponse response) {
    return response.getSkippedSamples();
  }

  /** Numbers from 0 on, as far as they are available. */
  private static final class Numbers implements StreamFeed.Source<WatchGpusResponse> {
    private final AtomicInteger asked = new AtomicInteger();
    private volatile int available;
    private volatile int last = Integer.MAX_VALUE;
    private volatile String text = "";
    private volatile BerthException failure;

    @Override
    public WatchGpusResponse next() {
      if (failure != null) {
        throw failure;
      }
      if (asked.get() >= Math.min(available, last)) {
        return null;
      }
      return WatchGpusResponse.newBuilder()
          .setSkippedSamples(asked.getAndIncrement())
          .setReport(GpuReport.newBuilder().setServer(text))
          .build();
    }

    @Override
    public boolean ended() {
      return asked.get() >= last;
    }
  }
}
