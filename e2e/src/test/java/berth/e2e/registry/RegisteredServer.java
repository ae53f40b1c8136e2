package berth.e2e.registry;

import berth.rpc.Address;
import berth.rpc.RpcChannel;
import berth.v1.DeregisterRequest;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.RegisterRequest;
import berth.v1.RegistryServiceGrpc;
import berth.v1.RegistryServiceGrpc.RegistryServiceBlockingStub;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import io.grpc.StatusRuntimeException;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Keeps a server known to a registry, with whatever a test wants it to be known for: true or not.
 * Registers over and over, so a registry that was restarted knows it soon again.
 */
final class RegisteredServer implements AutoCloseable {
  private static final long EVERY_MILLIS = 200;
  private static final long TIMEOUT_SECONDS = 10;

  private final RpcChannel channel;
  private final String instance = UUID.randomUUID().toString();
  private final ServerInfo info;
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
  private ServerStatus status;
  private long generation;

  /** All of its GPUs are said to be free. */
  RegisteredServer(String registry, String address, ServerInfo.Builder info, int gpus) {
    channel = RpcChannel.to(Address.parse(registry, 0));
    for (int i = 0; i < gpus; i++) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(i)
              .setUuid("GPU-" + info.getName() + "-" + i)
              .setModel("Simulated A100 80GB")
              .setMemoryBytes(80L << 30));
    }
    this.info = info.setAddress(address).setSimulated(true).setRuntime("process").build();
    free(gpus);
    timer.scheduleWithFixedDelay(
        this::registerAgain, EVERY_MILLIS, EVERY_MILLIS, TimeUnit.MILLISECONDS);
  }

  String name() {
    return info.getName();
  }

  /** Says that so many of its GPUs are free. */
  void free(int gpus) {
    ServerStatus.Builder now = ServerStatus.newBuilder().setCanRun(true);
    for (int i = 0; i < info.getGpusCount(); i++) {
      now.addGpus(
          GpuStatus.newBuilder()
              .setIndex(i)
              .setState(i < gpus ? GpuState.GPU_STATE_FREE : GpuState.GPU_STATE_RESERVED));
    }
    say(now.build());
  }

  synchronized void say(ServerStatus now) {
    status = now;
    register();
  }

  private synchronized void register() {
    generation =
        stub()
            .register(
                RegisterRequest.newBuilder()
                    .setInfo(info)
                    .setStatus(status)
                    .setInstance(instance)
                    .setGeneration(generation)
                    .build())
            .getGeneration();
  }

  private void registerAgain() {
    try {
      register();
    } catch (StatusRuntimeException e) {
      // The registry is not there at present.
      channel.connectNow();
    }
  }

  private RegistryServiceBlockingStub stub() {
    return RegistryServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(TIMEOUT_SECONDS, TimeUnit.SECONDS);
  }

  /** Makes it unknown at once. */
  @Override
  public void close() {
    timer.shutdownNow();
    synchronized (this) {
      stub()
          .deregister(
              DeregisterRequest.newBuilder().setName(info.getName()).setInstance(instance).build());
    }
    channel.close();
  }
}
