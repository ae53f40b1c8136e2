package berth.e2e.page;

import berth.rpc.Address;
import berth.rpc.Messages;
import berth.rpc.RpcChannel;
import berth.v1.AttachRunRequest;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.GetGpuHistoryRequest;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.GetRunRequest;
import berth.v1.GetRunResponse;
import berth.v1.Gpu;
import berth.v1.GpuHealth;
import berth.v1.GpuHealthState;
import berth.v1.GpuHistory;
import berth.v1.GpuInfo;
import berth.v1.GpuMemory;
import berth.v1.GpuProcess;
import berth.v1.GpuProcesses;
import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.OutputStream;
import berth.v1.OverviewServiceGrpc;
import berth.v1.Owner;
import berth.v1.RecentRuns;
import berth.v1.RegisterRequest;
import berth.v1.RegistryServiceGrpc;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunOutput;
import berth.v1.RunServiceGrpc;
import berth.v1.RunStarted;
import berth.v1.RunState;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import berth.v1.UnreservedUse;
import berth.v1.Waiting;
import berth.v1.WatchOverviewRequest;
import berth.v1.WatchOverviewResponse;
import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Many servers that exist only to be looked at: they register, and have a sample of eight GPUs each
 * every second. All of them are in this process, on as many ports of loopback.
 */
public final class SimulatedFleet implements AutoCloseable {
  private static final Context.Key<Integer> PORT = Context.key("port");
  private static final int GPUS = 8;
  private static final int PAST = 150;
  private static final List<String> MODELS =
      List.of("Simulated A100 80GB", "Simulated H100 80GB", "Simulated RTX 6000 Ada");
  private static final List<String> USERS = List.of("ann", "bob", "chen", "dora", "emil", "fatima");
  private static final List<String> PURPOSES =
      List.of("resnet50 on imagenet", "bert fine-tuning", "diffusion ablation", "mnist warm-up");
  private static final String OUTPUT =
      """
      Found 50000 files belonging to 10 classes.
      Epoch 1/20
      1563/1563 ━━━━━━━━━━━━━━━━━━━━ 14s 8ms/step - accuracy: 0.4312 - loss: 1.5514 - val_accuracy: 0.5468
      Epoch 2/20
      1563/1563 ━━━━━━━━━━━━━━━━━━━━ 12s 8ms/step - accuracy: 0.5931 - loss: 1.1502 - val_accuracy: 0.6235
      Epoch 3/20
      """;

  private final Server server;
  private final RpcChannel registry;
  private final Map<Integer, Simulated> byPort = new ConcurrentHashMap<>();
  private final List<Simulated> servers = new ArrayList<>();
  private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();

  public SimulatedFleet(Address registryAddress, int count) throws IOException {
    NettyServerBuilder builder = NettyServerBuilder.forAddress(anyPort());
    for (int i = 1; i < count; i++) {
      builder.addListenAddress(anyPort());
    }
    server =
        builder
            .directExecutor()
            .intercept(new Ports())
            .addService(new Overviews())
            .addService(new Histories())
            .addService(new Runs())
            .build()
            .start();
    registry = RpcChannel.to(registryAddress);
    for (var address : server.getListenSockets()) {
      int port = ((InetSocketAddress) address).getPort();
      Simulated simulated = new Simulated(servers.size(), port);
      servers.add(simulated);
      byPort.put(port, simulated);
    }
  }

  /** Makes all known. */
  public void begin() {
    servers.forEach(Simulated::register);
    timer.scheduleAtFixedRate(this::second, 1, 1, TimeUnit.SECONDS);
  }

  private static InetSocketAddress anyPort() {
    return new InetSocketAddress("127.0.0.1", 0);
  }

  private void second() {
    servers.forEach(Simulated::sample);
    // Each every two seconds, as servers do.
    long now = System.nanoTime() / 1_000_000_000L;
    servers.stream()
        .filter(simulated -> simulated.number % 2 == now % 2)
        .forEach(Simulated::register);
  }

  @Override
  public void close() {
    timer.shutdownNow();
    registry.close();
    server.shutdownNow();
  }

  /** One server. */
  private final class Simulated {
    private final int number;
    private final String name;
    private final Random random;
    private final String model;
    private final Address address;
    private final Instant begun = Instant.now().minus(Duration.ofMinutes(37));
    private final int[][] values = new int[GPUS][];
    private final GpuState[] states = new GpuState[GPUS];
    private final Set<StreamObserver<WatchOverviewResponse>> watchers =
        ConcurrentHashMap.newKeySet();

    Simulated(int number, int port) {
      this.number = number;
      this.name = "gpu%03d".formatted(number + 1);
      this.random = new Random(number);
      this.model = MODELS.get(number % MODELS.size());
      this.address = new Address("127.0.0.1", port);
      for (int i = 0; i < GPUS; i++) {
        states[i] = state(i);
        values[i] = new int[] {random.nextInt(100), random.nextInt(80_000), 60, 250};
      }
    }

    private GpuState state(int gpu) {
      if (number % 7 == 1 && gpu == 5) {
        return GpuState.GPU_STATE_UNHEALTHY;
      }
      if (number % 5 == 2 && gpu == 6) {
        return GpuState.GPU_STATE_USED;
      }
      return gpu < (number * 3) % 7 + 1 ? GpuState.GPU_STATE_RESERVED : GpuState.GPU_STATE_FREE;
    }

    private boolean busy(int gpu) {
      return states[gpu] == GpuState.GPU_STATE_RESERVED || states[gpu] == GpuState.GPU_STATE_USED;
    }

    private String uuid(int gpu) {
      return "GPU-%08x-0000-0000-0000-%012x".formatted(number, gpu);
    }

    private Owner owner() {
      return Owner.newBuilder().setUser(USERS.get(number % USERS.size())).setHost("login1").build();
    }

    void register() {
      ServerInfo.Builder info =
          ServerInfo.newBuilder()
              .setName(name)
              .setAddress(address.toString())
              .setCpus(64)
              .setMemoryBytes(512L << 30)
              .setVersion("0.2.0")
              .setRuntime("docker")
              .setSimulated(true)
              .putLabels("room", "b" + (10 + number % 4));
      ServerStatus.Builder status =
          ServerStatus.newBuilder()
              .setCanRun(true)
              .setFreeMemoryBytes(300L << 30)
              .setQueueLength(number % 4 == 3 ? 1 : 0)
              .setRunCount(1);
      for (int i = 0; i < GPUS; i++) {
        info.addGpus(
            GpuInfo.newBuilder()
                .setIndex(i)
                .setUuid(uuid(i))
                .setModel(model)
                .setMemoryBytes(80L << 30));
        status.addGpus(GpuStatus.newBuilder().setIndex(i).setState(states[i]));
      }
      RegistryServiceGrpc.newStub(registry.channel())
          .withDeadlineAfter(5, TimeUnit.SECONDS)
          .register(
              RegisterRequest.newBuilder()
                  .setInfo(info)
                  .setStatus(status)
                  .setInstance("i-" + name)
                  .build(),
              new Ignored<>());
    }

    void sample() {
      for (int i = 0; i < GPUS; i++) {
        int[] value = values[i];
        value[0] = busy(i) ? within(value[0] + random.nextInt(31) - 15, 35, 100) : 0;
        value[1] = busy(i) ? within(value[1] + random.nextInt(2001) - 1000, 20_000, 79_000) : 11;
        value[2] = within(value[2] + random.nextInt(3) - 1, busy(i) ? 55 : 30, busy(i) ? 82 : 36);
        value[3] = busy(i) ? within(150 + value[0] * 2 + random.nextInt(9), 80, 400) : 52;
      }
      WatchOverviewResponse news = WatchOverviewResponse.newBuilder().setReport(report()).build();
      watchers.forEach(watcher -> watcher.onNext(news));
    }

    private int within(int value, int least, int most) {
      return Math.max(least, Math.min(most, value));
    }

    private GpuReport report() {
      GpuReport.Builder report =
          GpuReport.newBuilder()
              .setServer(name)
              .setSampledAt(Messages.timestamp(Instant.now()))
              .setDriverVersion("550.54.15")
              .setCudaVersion("12.4")
              .setSimulated(true);
      for (int i = 0; i < GPUS; i++) {
        boolean sick = states[i] == GpuState.GPU_STATE_UNHEALTHY;
        report.addGpus(
            Gpu.newBuilder()
                .setIndex(i)
                .setUuid(uuid(i))
                .setName(model)
                .setMemory(
                    GpuMemory.newBuilder()
                        .setTotalBytes(80L << 30)
                        .setUsedBytes((long) values[i][1] << 20))
                .setGpuUtilizationPercent(values[i][0])
                .setTemperatureCelsius(values[i][2])
                .setPowerMilliwatts(values[i][3] * 1000)
                .setPowerLimitMilliwatts(400_000)
                .setProcesses(
                    GpuProcesses.newBuilder()
                        .addProcesses(
                            GpuProcess.newBuilder()
                                .setPid(4000 + i)
                                .setUser("guest")
                                .setCommand("jupyter")
                                .setMemoryBytes(9L << 30)))
                .setHealth(
                    GpuHealth.newBuilder()
                        .setState(
                            sick
                                ? GpuHealthState.GPU_HEALTH_STATE_SICK
                                : GpuHealthState.GPU_HEALTH_STATE_HEALTHY)
                        .setReason(sick ? "XID 79: the GPU has fallen off the bus" : "")));
      }
      return report.build();
    }

    WatchOverviewResponse everything() {
      return WatchOverviewResponse.newBuilder()
          .setReport(report())
          .setReservations(reservations())
          .setRuns(RecentRuns.newBuilder().addRuns(run()))
          .setClusters(clusters())
          .build();
    }

    private Reservation reservation() {
      Reservation.Builder reservation =
          Reservation.newBuilder()
              .setReservationId("r-" + name)
              .setOwner(owner())
              .setPurpose(PURPOSES.get(number % PURPOSES.size()))
              .setGrantedAt(Messages.timestamp(begun))
              .addRunIds("run-" + name);
      if (number % 2 == 0) {
        reservation.setExpiresAt(Messages.timestamp(begun.plus(Duration.ofHours(4))));
      }
      for (int i = 0; i < GPUS; i++) {
        if (states[i] == GpuState.GPU_STATE_RESERVED) {
          reservation.addGpus(ReservedGpu.newBuilder().setIndex(i).setUuid(uuid(i)));
        }
      }
      return reservation.build();
    }

    private ListReservationsResponse reservations() {
      ListReservationsResponse.Builder reservations =
          ListReservationsResponse.newBuilder().setServer(name).addReservations(reservation());
      if (number % 4 == 3) {
        reservations.addWaiting(
            Waiting.newBuilder()
                .setOwner(Owner.newBuilder().setUser("gwen").setHost("lap7"))
                .setPurpose("llm evaluation")
                .setGpuCount(8)
                .setSince(Messages.timestamp(begun.plus(Duration.ofMinutes(25)))));
      }
      for (int i = 0; i < GPUS; i++) {
        if (states[i] == GpuState.GPU_STATE_USED) {
          reservations.addUnreservedUse(
              UnreservedUse.newBuilder().setIndex(i).setUuid(uuid(i)).addPids(4000 + i));
        }
      }
      return reservations.build();
    }

    Run run() {
      return Run.newBuilder()
          .setRunId("run-" + name)
          .setServer(name)
          .setState(RunState.RUN_STATE_RUNNING)
          .setRequest(
              RunCodeRequest.newBuilder()
                  .setService("tensorflow")
                  .addCommand("train.py")
                  .addCommand("--epochs=20")
                  .setName(PURPOSES.get(number % PURPOSES.size()))
                  .setOwner(owner()))
          .setAcceptedAt(Messages.timestamp(begun))
          .setReservation(reservation())
          .setStarted(RunStarted.newBuilder().setStartedAt(Messages.timestamp(begun)))
          .setOutputBytes(OUTPUT.length())
          .build();
    }

    private ListClustersResponse clusters() {
      ListClustersResponse.Builder list = ListClustersResponse.newBuilder().setServer(name);
      if (number % 10 != 0) {
        return list.build();
      }
      Timestamp start = Messages.timestamp(begun);
      ClusterStatus.Builder cluster =
          ClusterStatus.newBuilder()
              .setClusterId("cluster-" + name)
              .setName("imagenet")
              .setServer(name)
              .setOwner(owner())
              .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
              .setSubmittedAt(start)
              .setFormedAt(start)
              .setRestarts(1);
      for (String task : List.of("chief:0", "worker:0", "worker:1", "ps:0")) {
        cluster.addTasks(
            TaskStatus.newBuilder()
                .setType(task.split(":")[0])
                .setIndex(Integer.parseInt(task.split(":")[1]))
                .setGpuCount(task.startsWith("ps") ? 0 : 2)
                .addAttempts(
                    TaskAttempt.newBuilder()
                        .setNumber(task.equals("worker:1") ? 2 : 1)
                        .setServer(name)
                        .setServerAddress(address.toString())
                        .setAddress("10.0.0.7:20001")
                        .setRunId("run-" + name)
                        .setStartedAt(start)));
      }
      return list.addClusters(cluster).build();
    }

    GetGpuHistoryResponse history() {
      GetGpuHistoryResponse.Builder history =
          GetGpuHistoryResponse.newBuilder()
              .setStep(Messages.duration(Duration.ofSeconds(2)))
              .setEnd(Messages.timestamp(Instant.now()))
              .setAge(Messages.duration(Duration.ZERO));
      for (int i = 0; i < GPUS; i++) {
        GpuHistory.Builder gpu = GpuHistory.newBuilder().setIndex(i).setUuid(uuid(i));
        int utilization = values[i][0];
        for (int point = 0; point < PAST; point++) {
          utilization = busy(i) ? within(utilization + random.nextInt(31) - 15, 20, 100) : 0;
          gpu.addUtilizationPercent(utilization)
              .addMemoryMebibytes(
                  busy(i) ? within(values[i][1] - (PAST - point) * 40, 0, 80_000) : 11)
              .addTemperatureCelsius(busy(i) ? 58 + utilization / 6 : 33)
              .addPowerWatts(busy(i) ? 150 + utilization * 2 : 52);
        }
        history.addGpus(gpu);
      }
      return history.build();
    }
  }

  private Simulated called() {
    return byPort.get(PORT.get());
  }

  private static <T> void answer(StreamObserver<T> observer, T response) {
    observer.onNext(response);
    observer.onCompleted();
  }

  /** Notes on which port a call came, since all have the same service. */
  private static final class Ports implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      InetSocketAddress local =
          (InetSocketAddress) call.getAttributes().get(Grpc.TRANSPORT_ATTR_LOCAL_ADDR);
      return Contexts.interceptCall(
          Context.current().withValue(PORT, local.getPort()), call, headers, next);
    }
  }

  private final class Overviews extends OverviewServiceGrpc.OverviewServiceImplBase {
    @Override
    public void watchOverview(
        WatchOverviewRequest request, StreamObserver<WatchOverviewResponse> observer) {
      Simulated simulated = called();
      ((ServerCallStreamObserver<?>) observer)
          .setOnCancelHandler(() -> simulated.watchers.remove(observer));
      timer.execute(
          () -> {
            observer.onNext(simulated.everything());
            simulated.watchers.add(observer);
          });
    }
  }

  private final class Histories extends GpuServiceGrpc.GpuServiceImplBase {
    @Override
    public void getGpuHistory(
        GetGpuHistoryRequest request, StreamObserver<GetGpuHistoryResponse> observer) {
      answer(observer, called().history());
    }
  }

  private final class Runs extends RunServiceGrpc.RunServiceImplBase {
    @Override
    public void getRun(GetRunRequest request, StreamObserver<GetRunResponse> observer) {
      answer(observer, GetRunResponse.newBuilder().setRun(called().run()).build());
    }

    @Override
    public void attachRun(AttachRunRequest request, StreamObserver<RunEvent> observer) {
      observer.onNext(
          RunEvent.newBuilder()
              .setAccepted(RunAccepted.newBuilder().setRunId(request.getRunId()))
              .build());
      observer.onNext(
          RunEvent.newBuilder()
              .setOutput(
                  RunOutput.newBuilder()
                      .setStream(OutputStream.OUTPUT_STREAM_STDOUT)
                      .setData(ByteString.copyFromUtf8(OUTPUT)))
              .build());
    }
  }

  private static final class Ignored<T> implements StreamObserver<T> {
    @Override
    public void onNext(T message) {}

    @Override
    public void onError(Throwable failure) {}

    @Override
    public void onCompleted() {}
  }
}
