package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.v1.GpuRequest;
import berth.v1.GpuServiceGrpc;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.GpuSet;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import berth.v1.Owner;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunServiceGrpc;
import berth.v1.RunServiceGrpc.RunServiceImplBase;
import berth.v1.Source;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchGpusResponse;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class RpcLimitsTest {
  /** As {@link RpcServer} has it. */
  private static final int MOST_WAITING = 10_000;

  @Test
  void oneClientHasNoMoreConnectionsThanItMay() throws Exception {
    try (var server =
        RpcServer.listenOn(new Address("127.0.0.1", 0)).maxConnections(10, 2).start()) {
      try (Socket first = connect(server.address());
          Socket second = connect(server.address())) {
        assertThat(first.getInputStream().read()).isNotNegative();
        assertThat(second.getInputStream().read()).isNotNegative();
        assertThat(isRefused(server.address())).isTrue();
      }
      // Those two are seen to be gone after a moment.
      while (isRefused(server.address())) {
        Thread.onSpinWait();
      }
    }
  }

  @Test
  void callersInAllHaveNoMoreConnectionsThanTheyMay() throws Exception {
    try (var server = RpcServer.listenOn(new Address("127.0.0.1", 0)).maxConnections(1, 5).start();
        Socket first = connect(server.address())) {
      assertThat(first.getInputStream().read()).isNotNegative();
      assertThat(isRefused(server.address())).isTrue();
    }
  }

  @Test
  void addressesOfOneNetworkAreOneClient() throws Exception {
    ClientCount count = new ClientCount(10, 1);
    assertThat(count.add(client("2001:db8::1"))).isEmpty();
    assertThat(count.add(client("2001:db8::ffff:1"))).isPresent();
    assertThat(count.add(client("2001:db8:0:1::1"))).isEmpty();
    assertThat(count.add(client("10.0.0.1"))).isEmpty();
    assertThat(count.add(client("10.0.0.2"))).isEmpty();
    count.remove(client("2001:db8::1"));
    assertThat(count.add(client("2001:db8::ffff:1"))).isEmpty();
    assertThat(count.all()).isEqualTo(4);
  }

  @Test
  void callersInAllHaveNoMoreCallsThanTheyMayAndAreTold() throws Exception {
    try (var loopback = Loopback.serving(new Watching(), server -> server.maxConnections(1, 5))) {
      List<Reader<WatchGpusRequest, WatchGpusResponse>> open = new ArrayList<>();
      for (int i = 0; i < 4; i++) {
        open.add(watch(loopback));
        open.get(i).next();
      }
      Status refused = watch(loopback).status();
      assertThat(refused.getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
      assertThat(refused.getDescription())
          .isEqualTo("too many calls: 4 connections are open, the maximum");
      open.get(2).cancel();
      open.get(2).status();
      awaitServed(loopback);
    }
  }

  /** One thread serves all calls, and has more to do than it should when it comes to the first. */
  @Test
  void whileTooManyCallsWaitTheNextOneIsRefusedAndTold() throws Exception {
    CountDownLatch released = new CountDownLatch(1);
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
    try (var loopback = Loopback.serving(new Watching(), server -> server.executor(threads))) {
      threads.execute(() -> hold(released));
      var waiting = watch(loopback);
      while (threads.getQueue().isEmpty()) {
        Thread.onSpinWait();
      }
      for (int i = 0; i < MOST_WAITING + 1; i++) {
        threads.execute(() -> {});
      }
      released.countDown();
      Status refused = waiting.status();
      assertThat(refused.getCode()).isEqualTo(Status.Code.UNAVAILABLE);
      assertThat(refused.getDescription()).isEqualTo("server overloaded; try again");
      awaitServed(loopback);
    } finally {
      released.countDown();
      threads.shutdown();
    }
  }

  @Test
  void asManyCallsAsMayWaitAreServed() throws Exception {
    CountDownLatch released = new CountDownLatch(1);
    ThreadPoolExecutor threads =
        new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
    try (var loopback = Loopback.serving(new Watching(), server -> server.executor(threads))) {
      threads.execute(() -> hold(released));
      var waiting = watch(loopback);
      while (threads.getQueue().isEmpty()) {
        Thread.onSpinWait();
      }
      for (int i = 0; i < MOST_WAITING; i++) {
        threads.execute(() -> {});
      }
      released.countDown();
      waiting.next();
    } finally {
      released.countDown();
      threads.shutdown();
    }
  }

  @Test
  void oneClientHasNoMoreCallsThanItMayAndIsTold() throws Exception {
    try (var loopback = Loopback.serving(new Watching(), server -> server.maxConnections(1, 1))) {
      Reader<WatchGpusRequest, WatchGpusResponse> last = null;
      for (int i = 0; i < 4; i++) {
        last = watch(loopback);
        last.next();
      }
      Status refused = watch(loopback).status();
      assertThat(refused.getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
      assertThat(refused.getDescription())
          .isEqualTo("too many calls: 4 connections of this client are open, the maximum");
      last.cancel();
      last.status();
      awaitServed(loopback);
    }
  }

  @Test
  void theCallsOfOneClientMayHaveALimitOfTheirOwn() throws Exception {
    try (var loopback = Loopback.serving(new Watching(), server -> server.maxCallsPerClient(2))) {
      for (int i = 0; i < 2; i++) {
        watch(loopback).next();
      }
      assertThat(watch(loopback).status().getDescription())
          .isEqualTo("too many calls: 2 connections of this client are open, the maximum");
    }
  }

  // The end of a call is seen by the server after a moment. Many that come and go are no problem.
  private static void awaitServed(Loopback loopback) {
    for (int served = 0; served < 100; ) {
      try {
        loopback.gpus().listGpus(ListGpusRequest.getDefaultInstance());
        served++;
      } catch (io.grpc.StatusRuntimeException e) {
        assertThat(served).isZero();
      }
    }
  }

  private static void hold(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Answers at once, and leaves watches open. */
  private static final class Watching extends GpuServiceImplBase {
    @Override
    public void watchGpus(WatchGpusRequest request, StreamObserver<WatchGpusResponse> to) {
      to.onNext(WatchGpusResponse.getDefaultInstance());
    }

    @Override
    public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> to) {
      to.onNext(ListGpusResponse.getDefaultInstance());
      to.onCompleted();
    }
  }

  @Test
  void largeRequestsBeyondTheMemoryAreRefusedAndSmallOnesServed() throws Exception {
    CountDownLatch handled = new CountDownLatch(1);
    Semaphore arrived = new Semaphore(0);
    var holding =
        new RunServiceImplBase() {
          @Override
          public void runCode(RunCodeRequest request, StreamObserver<RunEvent> to) {
            arrived.release();
            if (request.getSource().getContent().size() > 1000) {
              hold(handled);
            }
            to.onCompleted();
          }
        };
    try (var loopback = Loopback.serving(holding, server -> server.maxLargeBytes(7 << 20))) {
      var first = run(loopback, 4 << 20);
      arrived.acquire();
      Status refused = run(loopback, 4 << 20).status();
      assertThat(refused.getCode()).isEqualTo(Status.Code.RESOURCE_EXHAUSTED);
      assertThat(refused.getDescription()).startsWith("too many large requests at once; try again");
      assertThat(run(loopback, 10).status().isOk()).isTrue();
      handled.countDown();
      assertThat(first.status().isOk()).isTrue();
      for (int i = 0; i < 5; i++) {
        assertThat(run(loopback, 4 << 20).status().isOk()).isTrue();
      }
    }
  }

  /** Each of them small, and none of them ever whole. */
  @Test
  void messagesThatStayHalfAreCountedToo() throws Exception {
    var serving =
        new RunServiceImplBase() {
          @Override
          public void runCode(RunCodeRequest request, StreamObserver<RunEvent> to) {
            to.onCompleted();
          }
        };
    int most = 200 << 10;
    int part = 30 << 10;
    try (var loopback = Loopback.serving(serving, server -> server.maxLargeBytes(most));
        HalfSender sender = new HalfSender(loopback.address(), "berth.v1.RunService/RunCode")) {
      int taken = most * 3 / 2 / part;
      for (int i = 0; i < taken + 2; i++) {
        sender.send(part);
      }
      // One of them: in which order they are counted is for their threads to decide.
      assertThat(sender.nextAnswered()).isPositive();
      assertThat(run(loopback, 10).status().isOk()).isTrue();
    }
  }

  @Test
  void whoBeginsCallsOnlyToResetThemIsCutOff() throws Exception {
    try (var loopback = Loopback.servingNothing();
        HalfSender sender = new HalfSender(loopback.address(), "berth.v1.GpuService/ListGpus")) {
      assertThatThrownBy(
              () -> {
                for (int i = 0; i < 20_000; i++) {
                  sender.reset();
                }
                while (true) {
                  sender.nextAnswered();
                }
              })
          .isInstanceOf(IOException.class);
    }
  }

  /** Speaks as much HTTP/2 as it takes to begin calls and never end them. */
  private static final class HalfSender implements AutoCloseable {
    private static final int DATA = 0;
    private static final int HEADERS = 1;
    private static final int RESET = 3;
    private static final int SETTINGS = 4;
    private static final int END_HEADERS = 4;
    private static final int END_STREAM = 1;
    private static final int ACK = 1;
    private static final Pattern STATUS = Pattern.compile("grpc-status.([0-9]+)", Pattern.DOTALL);
    private static final int FRAME = 16 << 10;

    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;
    private final String method;
    private final String[] header;
    private int stream = -1;

    HalfSender(Address server, String method, String... header) throws IOException {
      this.method = method;
      this.header = header;
      socket = connect(server);
      in = new DataInputStream(socket.getInputStream());
      out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
      out.writeBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
      frame(SETTINGS, 0, 0, new byte[0]);
      out.flush();
      // With them its windows become larger than what is sent here.
      readFrame();
      frame(SETTINGS, ACK, 0, new byte[0]);
    }

    /** Begins a call, and sends a part of a message of 16 MB. */
    void send(int bytes) throws IOException {
      begin();
      byte[] part = new byte[bytes];
      ByteBuffer.wrap(part).put((byte) 0).putInt(16_000_000);
      for (int at = 0; at < bytes; at += FRAME) {
        frame(DATA, 0, stream, Arrays.copyOfRange(part, at, Math.min(bytes, at + FRAME)));
      }
      out.flush();
    }

    /** Sends an empty message that is whole, and returns the status by which it is answered. */
    String statusOfEmptyRequest() throws IOException {
      begin();
      frame(DATA, END_STREAM, stream, new byte[5]);
      out.flush();
      while (true) {
        Frame frame = readFrame();
        // Short texts are sent as they are, the value with its length before it.
        Matcher status = STATUS.matcher(frame.text);
        if (frame.type == HEADERS && status.find()) {
          return status.group(1);
        }
      }
    }

    void reset() throws IOException {
      begin();
      frame(RESET, 0, stream, new byte[] {0, 0, 0, 8});
      out.flush();
    }

    /** The next call that the server has answered. */
    int nextAnswered() throws IOException {
      while (true) {
        Frame frame = readFrame();
        if (frame.type == HEADERS || frame.type == RESET) {
          return frame.stream;
        }
      }
    }

    private void begin() throws IOException {
      stream += 2;
      ByteArrayOutputStream block = new ByteArrayOutputStream();
      List<String> texts =
          new ArrayList<>(
              List.of(
                  ":method",
                  "POST",
                  ":scheme",
                  "http",
                  ":path",
                  "/" + method,
                  ":authority",
                  "test",
                  "content-type",
                  "application/grpc",
                  "te",
                  "trailers"));
      texts.addAll(List.of(header));
      for (int i = 0; i < texts.size(); i++) {
        if (i % 2 == 0) {
          // Neither compressed nor remembered.
          block.write(0);
        }
        block.write(texts.get(i).length());
        block.writeBytes(texts.get(i).getBytes(StandardCharsets.US_ASCII));
      }
      frame(HEADERS, END_HEADERS, stream, block.toByteArray());
    }

    private void frame(int type, int flags, int on, byte[] content) throws IOException {
      out.writeByte(content.length >> 16);
      out.writeShort(content.length);
      out.writeByte(type);
      out.writeByte(flags);
      out.writeInt(on);
      out.write(content);
    }

    private record Frame(int type, int stream, String text) {}

    private Frame readFrame() throws IOException {
      int length = in.readUnsignedByte() << 16 | in.readUnsignedShort();
      int type = in.readUnsignedByte();
      in.readByte();
      int on = in.readInt();
      String text = new String(in.readNBytes(length), StandardCharsets.ISO_8859_1);
      return new Frame(type, on, text);
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  @Test
  void compressedMessagesAreNotTaken() {
    try (var loopback = Loopback.servingNothing()) {
      Status status =
          Status.fromThrowable(
              org.assertj.core.api.Assertions.catchThrowable(
                  () ->
                      loopback
                          .gpus()
                          .withCompression("gzip")
                          .listGpus(ListGpusRequest.getDefaultInstance())));
      assertThat(status.getDescription()).contains("gzip");
    }
  }

  /** Whoever keeps a message would keep with it what its rules have never seen. */
  @Test
  void whatNobodyKnowsInAMessageIsDroppedAtEveryLevel() throws Exception {
    var received = new CompletableFuture<RunCodeRequest>();
    var keeping =
        new RunServiceImplBase() {
          @Override
          public void runCode(RunCodeRequest request, StreamObserver<RunEvent> to) {
            received.complete(request);
            to.onCompleted();
          }
        };
    UnknownFieldSet unknown =
        UnknownFieldSet.newBuilder()
            .addField(
                5000,
                UnknownFieldSet.Field.newBuilder()
                    .addLengthDelimited(ByteString.copyFrom(new byte[1 << 20]))
                    .build())
            .build();
    RunCodeRequest known =
        RunCodeRequest.newBuilder()
            .setName("mine")
            .setOwner(Owner.newBuilder().setUser("ada"))
            .setGpus(GpuRequest.newBuilder().setExactly(GpuSet.newBuilder().addIds("0")))
            .build();
    RunCodeRequest.Builder sent = known.toBuilder().setUnknownFields(unknown);
    sent.getOwnerBuilder().setUnknownFields(unknown);
    sent.getGpusBuilder().getExactlyBuilder().setUnknownFields(unknown);
    try (var loopback = Loopback.serving(keeping)) {
      var reader = new Reader<RunCodeRequest, RunEvent>();
      RunServiceGrpc.newStub(loopback.channel()).runCode(sent.build(), reader);
      assertThat(reader.status().isOk()).isTrue();
    }
    assertThat(received.get()).isEqualTo(known);
  }

  @Test
  void whoSaysThatNothingIsCompressedIsServed() throws Exception {
    try (var loopback = Loopback.serving(new Watching());
        HalfSender sender =
            new HalfSender(
                loopback.address(), "berth.v1.GpuService/ListGpus", "grpc-encoding", "identity")) {
      assertThat(sender.statusOfEmptyRequest()).isEqualTo("0");
    }
  }

  private static Reader<RunCodeRequest, RunEvent> run(Loopback loopback, int bytes) {
    var reader = new Reader<RunCodeRequest, RunEvent>();
    RunServiceGrpc.newStub(loopback.channel())
        .runCode(
            RunCodeRequest.newBuilder()
                .setSource(
                    Source.newBuilder().setContent(ByteString.copyFrom(new byte[bytes])).build())
                .build(),
            reader);
    return reader;
  }

  private static Reader<WatchGpusRequest, WatchGpusResponse> watch(Loopback loopback) {
    var reader = new Reader<WatchGpusRequest, WatchGpusResponse>();
    GpuServiceGrpc.newStub(loopback.channel())
        .watchGpus(WatchGpusRequest.getDefaultInstance(), reader);
    return reader;
  }

  private static InetSocketAddress client(String address) throws IOException {
    InetAddress parsed = InetAddress.getByName(address);
    assertThat(parsed instanceof Inet6Address).isEqualTo(address.contains(":"));
    return new InetSocketAddress(parsed, 1);
  }

  // The server speaks first, in HTTP/2.
  private static Socket connect(Address server) throws IOException {
    return new Socket(server.host(), server.port());
  }

  private static boolean isRefused(Address server) throws IOException {
    try (Socket socket = connect(server)) {
      return socket.getInputStream().read() < 0;
    } catch (java.net.SocketException e) {
      return true;
    }
  }
}
