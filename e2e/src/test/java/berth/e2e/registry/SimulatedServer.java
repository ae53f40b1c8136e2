package berth.e2e.registry;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Replicas;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.RegistryServiceGrpc;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import io.grpc.Channel;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A server that is nothing but what registries know of it: it registers and reports. */
final class SimulatedServer implements AutoCloseable {
  private static final Duration DEADLINE = Duration.ofSeconds(2);
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final RegisterRequest registration;
  private final Replicas registries;
  private final CountDownLatch closed = new CountDownLatch(1);
  private final Thread thread = new Thread(this::run);
  private volatile int registrations;
  private volatile int failures;
  private volatile long lastHeard = System.nanoTime();

  SimulatedServer(String name, int port, List<Address> registries) {
    this.registration =
        RegisterRequest.newBuilder()
            .setInfo(
                ServerInfo.newBuilder()
                    .setName(name)
                    .setAddress("127.0.0.1:" + port)
                    .addGpus(GpuInfo.newBuilder().setUuid("GPU-" + name)))
            .setStatus(
                ServerStatus.newBuilder()
                    .addGpus(GpuStatus.newBuilder().setState(GpuState.GPU_STATE_FREE)))
            .setInstance("i-" + name)
            .build();
    this.registries = new Replicas("registry", registries);
    thread.start();
  }

  String name() {
    return registration.getInfo().getName();
  }

  /** How often it had to register. */
  int registrations() {
    return registrations;
  }

  /** How often no registry answered within its patience. */
  int failures() {
    return failures;
  }

  boolean heardSince(long nanoTime) {
    return lastHeard - nanoTime > 0;
  }

  @Override
  public void close() {
    closed.countDown();
    try {
      thread.join();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
    registries.close();
  }

  private void run() {
    RegisterResponse known = RegisterResponse.getDefaultInstance();
    long pauseNanos = 0;
    try {
      while (!closed.await(pauseNanos, TimeUnit.NANOSECONDS)) {
        try {
          known = report(known);
          lastHeard = System.nanoTime();
        } catch (BerthException e) {
          failures++;
        }
        pauseNanos = Messages.duration(known.getHeartbeatInterval()).toNanos();
      }
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private RegisterResponse report(RegisterResponse known) {
    HeartbeatRequest beat =
        HeartbeatRequest.newBuilder()
            .setName(name())
            .setInstance(registration.getInstance())
            .setLeaseId(known.getLeaseId())
            .build();
    if (!known.getLeaseId().isEmpty()
        && registries.call(PATIENCE, channel -> heartbeat(channel, beat)).getKnown()) {
      return known;
    }
    registrations++;
    RegisterRequest request = registration.toBuilder().setGeneration(known.getGeneration()).build();
    return registries.call(
        PATIENCE,
        channel ->
            RegistryServiceGrpc.newBlockingStub(channel)
                .withDeadlineAfter(DEADLINE.toMillis(), TimeUnit.MILLISECONDS)
                .register(request));
  }

  // One stream for each, so that each can go to another registry.
  private static HeartbeatResponse heartbeat(Channel channel, HeartbeatRequest beat) {
    CompletableFuture<HeartbeatResponse> answer = new CompletableFuture<>();
    StreamObserver<HeartbeatRequest> requests =
        RegistryServiceGrpc.newStub(channel)
            .withDeadlineAfter(DEADLINE.toMillis(), TimeUnit.MILLISECONDS)
            .heartbeat(
                new StreamObserver<>() {
                  @Override
                  public void onNext(HeartbeatResponse response) {
                    answer.complete(response);
                  }

                  @Override
                  public void onError(Throwable failure) {
                    answer.completeExceptionally(failure);
                  }

                  @Override
                  public void onCompleted() {}
                });
    requests.onNext(beat);
    try {
      HeartbeatResponse response = answer.join();
      requests.onCompleted();
      return response;
    } catch (CompletionException e) {
      throw (StatusRuntimeException) e.getCause();
    }
  }
}
