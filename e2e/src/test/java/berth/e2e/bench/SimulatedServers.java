package berth.e2e.bench;

import berth.rpc.Address;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioSocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Servers that exist only for a registry: each registers over a connection of its own and sends a
 * heartbeat every two seconds, some of them with news.
 */
final class SimulatedServers implements AutoCloseable {
  static final int NEWS_EVERY = 20;
  private static final int GPUS = 8;
  private static final long INTERVAL_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final int AT_ONCE = 64;
  private static final EventLoopGroup EVENT_LOOPS =
      new MultiThreadIoEventLoopGroup(2, NioIoHandler.newFactory());

  private final class Simulated {
    private final ServerInfo info;
    private final ManagedChannel channel;
    private String leaseId;
    private StreamObserver<HeartbeatRequest> heartbeats;
    private int news;

    Simulated(int number) {
      this.info = info(number);
      this.channel = channel(registry);
    }

    void register(Runnable then, AtomicReference<Throwable> failure) {
      RegistryServiceGrpc.newStub(channel)
          .register(
              RegisterRequest.newBuilder()
                  .setInfo(info)
                  .setStatus(status(0))
                  .setInstance("i-" + info.getName())
                  .build(),
              new StreamObserver<>() {
                @Override
                public void onNext(RegisterResponse response) {
                  leaseId = response.getLeaseId();
                }

                @Override
                public void onError(Throwable why) {
                  failure.set(why);
                  then.run();
                }

                @Override
                public void onCompleted() {
                  then.run();
                }
              });
    }

    void open() {
      heartbeats =
          RegistryServiceGrpc.newStub(channel)
              .heartbeat(
                  new StreamObserver<>() {
                    @Override
                    public void onNext(HeartbeatResponse response) {
                      if (response.getKnown()) {
                        answered.incrementAndGet();
                      } else {
                        failures.incrementAndGet();
                      }
                    }

                    @Override
                    public void onError(Throwable why) {
                      if (!closed) {
                        failures.incrementAndGet();
                      }
                    }

                    @Override
                    public void onCompleted() {}
                  });
    }

    void beat(boolean withNews) {
      HeartbeatRequest.Builder request =
          HeartbeatRequest.newBuilder()
              .setName(info.getName())
              .setInstance("i-" + info.getName())
              .setLeaseId(leaseId);
      if (withNews) {
        news++;
        request.setStatus(status(news));
        sent.put(info.getName() + "/" + news, System.nanoTime());
      }
      heartbeats.onNext(request.build());
    }
  }

  private final Address registry;
  private final int matching;
  private final List<Simulated> servers = new ArrayList<>();
  private final AtomicLong answered = new AtomicLong();
  private final AtomicLong failures = new AtomicLong();
  private final Map<String, Long> sent = new ConcurrentHashMap<>();
  private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
  // Of the timer's one thread.
  private long beats;
  private volatile boolean closed;

  /**
   * @param matching how many of them have the service tensorflow, and stand in room a
   */
  SimulatedServers(Address registry, int count, int matching) {
    this.registry = registry;
    this.matching = matching;
    for (int i = 0; i < count; i++) {
      servers.add(new Simulated(i));
    }
  }

  static ManagedChannel channel(Address address) {
    return NettyChannelBuilder.forAddress(address.host(), address.port())
        .usePlaintext()
        .directExecutor()
        .eventLoopGroup(EVENT_LOOPS)
        .channelType(NioSocketChannel.class)
        .maxInboundMessageSize(16 << 20)
        .build();
  }

  /** Registers all; each begins to report at once, since its lease may be over before the last. */
  void register() throws InterruptedException {
    Semaphore places = new Semaphore(AT_ONCE);
    AtomicReference<Throwable> failure = new AtomicReference<>();
    Random random = new Random(1);
    for (Simulated server : servers) {
      places.acquire();
      long delay = random.nextLong(INTERVAL_NANOS);
      server.register(
          () -> {
            if (failure.get() == null) {
              server.open();
              timer.scheduleAtFixedRate(
                  () -> server.beat(++beats % NEWS_EVERY == 0),
                  delay,
                  INTERVAL_NANOS,
                  TimeUnit.NANOSECONDS);
            }
            places.release();
          },
          failure);
    }
    places.acquire(AT_ONCE);
    if (failure.get() != null) {
      throw new IllegalStateException("a registration failed", failure.get());
    }
  }

  long answered() {
    return answered.get();
  }

  long failures() {
    return failures.get();
  }

  /** When the news was sent that a server shows, if it shows any and was not asked before. */
  Optional<Long> sentAt(Server server) {
    return Optional.ofNullable(
        sent.get(server.getInfo().getName() + "/" + server.getStatus().getQueueLength()));
  }

  @Override
  public void close() {
    closed = true;
    timer.shutdownNow();
    servers.forEach(server -> server.channel.shutdownNow());
  }

  private ServerInfo info(int number) {
    boolean matches = number < matching;
    ServerInfo.Builder info =
        ServerInfo.newBuilder()
            .setName("gpu%05d".formatted(number))
            .setAddress(
                "10.%d.%d.%d:18812".formatted(number >> 16, number >> 8 & 255, number & 255))
            .setCpus(64)
            .setMemoryBytes(512L << 30)
            .setVersion("0.2.0")
            .setRuntime("docker")
            .putLabels("room", matches ? "a" : "b" + number % 50)
            .addServices(
                Service.newBuilder()
                    .setName(matches ? "tensorflow" : "caffe")
                    .addAliases(matches ? "tensorflow-2.21" : "caffe-1.0")
                    .setImage("berth.invalid/job:1"));
    for (int i = 0; i < GPUS; i++) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(i)
              .setUuid("GPU-%08x-0000-0000-0000-%012x".formatted(number, i))
              .setModel("NVIDIA A100-SXM4-80GB")
              .setMemoryBytes(80L << 30));
    }
    return info.build();
  }

  // The length of the queue numbers the news.
  private static ServerStatus status(int news) {
    ServerStatus.Builder status =
        ServerStatus.newBuilder().setCanRun(true).setQueueLength(news).setRunCount(news % 8);
    for (int i = 0; i < GPUS; i++) {
      status.addGpus(
          GpuStatus.newBuilder()
              .setIndex(i)
              .setState(i < news % 8 ? GpuState.GPU_STATE_RESERVED : GpuState.GPU_STATE_FREE)
              .setFreeMemoryBytes(79L << 30));
    }
    return status.build();
  }
}
