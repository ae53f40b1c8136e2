package berth.fake;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.AttachRunRequest;
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
import berth.v1.RemoveRunRequest;
import berth.v1.RemoveRunResponse;
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
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
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

  /** Refuses so many requests to run something, as one whose disk is full. */
  public final AtomicInteger failingStarts = new AtomicInteger();

  public final List<ReserveRequest> asked = new CopyOnWriteArrayList<>();

  /** What was run, each once however often it was asked for. */
  public final List<RunCodeRequest> launched = new CopyOnWriteArrayList<>();

  /** The runs that somebody had removed. */
  public final List<String> removed = new CopyOnWriteArrayList<>();

  /** The clusters that it says it supervises. */
  public final FakeClusters clusters;

  private final String name;
  private final Duration reserving;
  private final Duration starting;
  private final ScheduledExecutorService timer;
  private RpcServer server;
  private final AtomicInteger numbers = new AtomicInteger();
  private final List<RpcChannel> registrations = new ArrayList<>();
  private final Set<String> held = ConcurrentHashMap.newKeySet();
  private final Map<String, FakeRun> runs = new ConcurrentHashMap<>();

  /**
   * @param reserving how long a reservation takes
   * @param starting how long the start of a program takes; one that is longer than the server lives
   *     never comes
   */
  public FakeServer(String name, Duration reserving, Duration starting) {
    this.name = name;
    this.clusters = new FakeClusters(name);
    this.reserving = reserving;
    this.starting = starting;
    this.timer =
        Executors.newSingleThreadScheduledExecutor(
            task -> {
              Thread thread = new Thread(task, name);
              thread.setDaemon(true);
              return thread;
            });
    this.server = listen(new Address("127.0.0.1", 0));
  }

  /** One that does nothing by itself. */
  public FakeServer(String name) {
    this(name, Duration.ZERO, Duration.ofDays(1));
  }

  private RpcServer listen(Address address) {
    return RpcServer.listenOn(address)
        .service(new Reservations())
        .service(new Runs())
        .service(clusters)
        .endStreams(clusters::breakOff)
        .start();
  }

  /** Stops, until {@link #start}. */
  public void stop() {
    server.close();
  }

  /** Comes back at the same address. */
  public void start() {
    server = listen(server.address());
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
        () -> {
          try {
            RegistryServiceGrpc.newBlockingStub(channel.channel())
                .withDeadlineAfter(1, TimeUnit.SECONDS)
                .register(request);
          } catch (StatusRuntimeException e) {
            // The next one follows; a timer would run no more after an exception.
          }
        },
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

  /**
   * Ends the run of a task, such as {@code worker:0}, and returns whether it has one that has
   * started.
   */
  public boolean exit(String task, ExitReason reason, int exitCode) {
    for (FakeRun run : runs.values()) {
      if (run.request.getName().startsWith(task + " ") && run.exit(reason, exitCode, true)) {
        return true;
      }
    }
    return false;
  }

  /** Loses everything, as a server that was cut off for longer than a lease. */
  public void lose() {
    held.clear();
    runs.values().forEach(run -> run.exit(ExitReason.EXIT_REASON_CANCELLED, 143, false));
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
      if (held.contains(request.getReservationId())) {
        answer(observer, RenewResponse.getDefaultInstance());
      } else {
        observer.onError(
            Statuses.toException(new BerthException(Reason.NOT_FOUND, "no such reservation")));
      }
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
      if (failingStarts.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
        observer.onError(
            Statuses.toException(
                new BerthException(Reason.UNAVAILABLE, "No space left on device")));
        return;
      }
      synchronized (runs) {
        for (FakeRun known : runs.values()) {
          // Without an id every call is a new run.
          if (!request.getRequestId().isEmpty()
              && known.request.getRequestId().equals(request.getRequestId())) {
            known.attach(observer, request.getDetached());
            return;
          }
        }
        launched.add(request);
        FakeRun run = new FakeRun("run-" + numbers.incrementAndGet(), request);
        runs.put(run.id, run);
        run.attach(observer, request.getDetached());
        if (unstartable.test(request)) {
          run.exit(ExitReason.EXIT_REASON_START_FAILED, 0, false);
          return;
        }
        after(starting, run::start);
      }
    }

    @Override
    public void attachRun(AttachRunRequest request, StreamObserver<RunEvent> observer) {
      FakeRun run = runs.get(request.getRunId());
      if (run == null) {
        observer.onError(Statuses.toException(new BerthException(Reason.NOT_FOUND, "no such run")));
      } else {
        run.attach(observer, false);
      }
    }

    @Override
    public void removeRun(RemoveRunRequest request, StreamObserver<RemoveRunResponse> observer) {
      removed.add(request.getRunId());
      runs.remove(request.getRunId());
      answer(observer, RemoveRunResponse.getDefaultInstance());
    }

    @Override
    public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> observer) {
      if (failingCancels.getAndUpdate(left -> Math.max(0, left - 1)) > 0) {
        observer.onError(
            Statuses.toException(new BerthException(Reason.UNAVAILABLE, name + " is away")));
        return;
      }
      FakeRun run = runs.get(request.getRunId());
      if (run != null) {
        run.exit(ExitReason.EXIT_REASON_CANCELLED, 143, false);
      }
      answer(observer, CancelRunResponse.getDefaultInstance());
    }
  }

  /** A run that ends when it is told to, or, if nobody wants it to outlive him, with its caller. */
  private final class FakeRun {
    private final String id;
    private final RunCodeRequest request;
    private final List<RunEvent> told = new ArrayList<>();
    private final Set<StreamObserver<RunEvent>> readers = new HashSet<>();
    private boolean started;
    private boolean ended;

    FakeRun(String id, RunCodeRequest request) {
      this.id = id;
      this.request = request;
      told.add(
          RunEvent.newBuilder()
              .setAccepted(RunAccepted.newBuilder().setRunId(id).setServer(name))
              .build());
    }

    synchronized void attach(StreamObserver<RunEvent> observer, boolean untilAccepted) {
      if (untilAccepted) {
        answer(observer, told.get(0));
        return;
      }
      ((ServerCallStreamObserver<RunEvent>) observer).setOnCancelHandler(() -> leave(observer));
      told.forEach(observer::onNext);
      if (ended) {
        observer.onCompleted();
      } else {
        readers.add(observer);
      }
    }

    private synchronized void leave(StreamObserver<RunEvent> observer) {
      readers.remove(observer);
      ended |= readers.isEmpty() && !request.getDetached();
    }

    synchronized void start() {
      if (!ended) {
        started = true;
        tell(RunEvent.newBuilder().setStarted(RunStarted.getDefaultInstance()).build());
      }
    }

    synchronized boolean exit(ExitReason reason, int exitCode, boolean onlyIfStarted) {
      if (ended || onlyIfStarted && !started) {
        return false;
      }
      ended = true;
      tell(
          RunEvent.newBuilder()
              .setExited(
                  RunExited.newBuilder().setReason(reason).setExitCode(started ? exitCode : 0))
              .build());
      readers.forEach(StreamObserver::onCompleted);
      return true;
    }

    private void tell(RunEvent event) {
      told.add(event);
      readers.forEach(reader -> reader.onNext(event));
    }
  }
}
