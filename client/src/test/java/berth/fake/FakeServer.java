package berth.fake;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.CancelRunRequest;
import berth.v1.CancelRunResponse;
import berth.v1.ExitReason;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ListServicesRequest;
import berth.v1.ListServicesResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegistryServiceGrpc;
import berth.v1.ReleaseRequest;
import berth.v1.ReleaseResponse;
import berth.v1.RenewRequest;
import berth.v1.RenewResponse;
import berth.v1.Reservation;
import berth.v1.ReservationServiceGrpc;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.ReservedGpu;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunServiceGrpc;
import berth.v1.RunStarted;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/**
 * A server on loopback that has nothing: it registers, grants whatever is asked, and says after a
 * while that it has started a program, which runs until it is cancelled. A test may say otherwise.
 */
public final class FakeServer implements AutoCloseable {
  private static final ServerStatus FREE =
      ServerStatus.newBuilder()
          .setCanRun(true)
          .addGpus(GpuStatus.newBuilder().setState(GpuState.GPU_STATE_FREE))
          .build();

  /** What a reservation is refused with; null: all are granted. */
  public volatile BerthException refusal;

  /** Programs that never start. */
  public volatile Predicate<RunCodeRequest> unstartable = request -> false;

  /** How many of the next requests to cancel fail, as if the server were away. */
  public final AtomicInteger failingCancels = new AtomicInteger();

  public final List<ReserveRequest> asked = new CopyOnWriteArrayList<>();

  private final String name;
  private final Duration reserving;
  private final Duration starting;
  private final ScheduledExecutorService timer;
  private final RpcServer server;
  private final AtomicInteger numbers = new AtomicInteger();
  private final List<RpcChannel> registrations = new ArrayList<>();
  private final Set<String> held = ConcurrentHashMap.newKeySet();
  private final Map<String, StreamObserver<RunEvent>> runs = new ConcurrentHashMap<>();

  /**
   * @param reserving how long a reservation takes
   * @param starting how long the start of a program takes; one that is longer than the server lives
   *     never comes
   */
  public FakeServer(String name, Duration reserving, Duration starting) {
    this.name = name;
    this.reserving = reserving;
    this.starting = starting;
    this.timer =
        Executors.newSingleThreadScheduledExecutor(
            task -> {
              Thread thread = new Thread(task, name);
              thread.setDaemon(true);
              return thread;
            });
    this.server =
        RpcServer.listenOn(new Address("127.0.0.1", 0))
            .service(new Reservations())
            .service(new Runs())
            .start();
  }

  /** Makes itself known, for as long as it lives. */
  public FakeServer registerAt(Address registry) {
    RpcChannel channel = RpcChannel.to(registry);
    registrations.add(channel);
    RegisterRequest request =
        RegisterRequest.newBuilder()
            .setInfo(
                ServerInfo.newBuilder()
                    .setName(name)
                    .setAddress(server.address().toString())
                    .setMemoryBytes(64L << 30)
                    .setCpus(16)
                    .addGpus(GpuInfo.newBuilder().setUuid("GPU-" + name)))
            .setStatus(FREE)
            .setInstance("i-" + name)
            .build();
    RegistryServiceGrpc.newBlockingStub(channel.channel()).register(request);
    timer.scheduleWithFixedDelay(
        () ->
            RegistryServiceGrpc.newBlockingStub(channel.channel())
                .withDeadlineAfter(1, TimeUnit.SECONDS)
                .register(request),
        1,
        1,
        TimeUnit.SECONDS);
    return this;
  }

  public Address address() {
    return server.address();
  }

  /** How many reservations nobody has released. */
  public int held() {
    return held.size();
  }

  @Override
  public void close() {
    timer.shutdownNow();
    server.close();
    registrations.forEach(RpcChannel::close);
  }

  private void after(Duration time, Runnable action) {
    timer.schedule(action, time.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static <T> void answer(StreamObserver<T> observer, T response) {
    observer.onNext(response);
    observer.onCompleted();
  }

  private final class Reservations extends ReservationServiceGrpc.ReservationServiceImplBase {
    @Override
    public void reserve(ReserveRequest request, StreamObserver<ReserveResponse> observer) {
      asked.add(request);
      if (refusal != null) {
        after(reserving, () -> observer.onError(Statuses.toException(refusal)));
        return;
      }
      int number = numbers.incrementAndGet();
      Reservation granted =
          Reservation.newBuilder()
              .setReservationId("r-" + number)
              .addGpus(ReservedGpu.newBuilder().setUuid("GPU-" + name))
              .addPorts(20_000 + number % 1000)
              .build();
      after(
          reserving,
          () -> {
            held.add(granted.getReservationId());
            answer(observer, ReserveResponse.newBuilder().setGranted(granted).build());
          });
    }

    @Override
    public void renew(RenewRequest request, StreamObserver<RenewResponse> observer) {
      answer(observer, RenewResponse.getDefaultInstance());
    }

    @Override
    public void release(ReleaseRequest request, StreamObserver<ReleaseResponse> observer) {
      held.remove(request.getReservationId());
      answer(observer, ReleaseResponse.getDefaultInstance());
    }
  }

  private final class Runs extends RunServiceGrpc.RunServiceImplBase {
    @Override
    public void listServices(
        ListServicesRequest request, StreamObserver<ListServicesResponse> observer) {
      answer(observer, ListServicesResponse.getDefaultInstance());
    }

    @Override
    public void runCode(RunCodeRequest request, StreamObserver<RunEvent> observer) {
      String id = "run-" + numbers.incrementAndGet();
      runs.put(id, observer);
      ((ServerCallStreamObserver<RunEvent>) observer).setOnCancelHandler(() -> runs.remove(id));
      observer.onNext(
          RunEvent.newBuilder()
              .setAccepted(RunAccepted.newBuilder().setRunId(id).setServer(name))
              .build());
      if (unstartable.test(request)) {
        exit(id, RunExited.newBuilder().setReason(ExitReason.EXIT_REASON_START_FAILED));
        return;
      }
      after(
          starting,
          () -> {
            synchronized (runs) {
              if (runs.containsKey(id)) {
                observer.onNext(
                    RunEvent.newBuilder().setStarted(RunStarted.getDefaultInstance()).build());
              }
            }
          });
    }

    @Override
    public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> observer) {
      if (failingCancels.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
        observer.onError(
            Statuses.toException(new BerthException(Reason.UNAVAILABLE, name + " is away")));
        return;
      }
      exit(
          request.getRunId(),
          RunExited.newBuilder().setReason(ExitReason.EXIT_REASON_CANCELLED).setExitCode(143));
      answer(observer, CancelRunResponse.getDefaultInstance());
    }

    private void exit(String id, RunExited.Builder end) {
      StreamObserver<RunEvent> events;
      synchronized (runs) {
        events = runs.remove(id);
      }
      if (events != null) {
        answer(events, RunEvent.newBuilder().setExited(end).build());
      }
    }
  }
}
