package berth.server.cluster;

import static org.awaitility.Awaitility.await;

import berth.host.gpu.GpuMonitor;
import berth.host.lock.KernelFiles;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.RpcChannel;
import berth.rpc.RpcServer;
import berth.rpc.Vitals;
import berth.server.reservation.Reservations;
import berth.server.run.Disks;
import berth.server.run.MountRules;
import berth.server.run.RunGrpcService;
import berth.server.run.Runs;
import berth.server.run.Services;
import berth.server.run.UidRange;
import berth.server.run.process.ProcessRuntime;
import berth.supervision.SealedMessage;
import berth.v1.ClusterServiceGrpc;
import berth.v1.ClusterServiceGrpc.ClusterServiceBlockingStub;
import berth.v1.ClusterServiceGrpc.ClusterServiceStub;
import berth.v1.ClusterStatus;
import berth.v1.RunServiceGrpc;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;

/**
 * A machine with a server over a real connection, which can be stopped and started again. Its
 * supervisors are shell scripts that do what the file {@code behaviour.sh} of their cluster says.
 */
final class Machine implements AutoCloseable {
  static final String NAME = "gpu01";
  static final Duration PATIENCE = Duration.ofSeconds(30);

  static final Clusters.Timing FAST =
      new Clusters.Timing(
          Duration.ofMillis(20),
          Duration.ofMillis(1),
          Duration.ofMillis(5),
          Duration.ofMinutes(1),
          Duration.ofSeconds(10),
          Duration.ofMillis(50));

  // Every start is noted before anything else happens.
  private static final String SUPERVISOR =
      """
      folder=$1/state
      input=$1/input
      echo "$$ $*" >>"$folder/starts"
      say() { cp "$input/package/$1" "$folder/said" && mv "$folder/said" "$folder/status"; }
      await() { while [ ! -e "$folder/$1" ]; do sleep 0.02; done; }
      cancelled() { while [ ! -e "$input/cancel" ]; do sleep 0.02; done; }
      . "$input/package/behaviour.sh"
      """;

  private final Path state;
  private final Path locks;
  private final Path script;
  private final GpuMonitor gpus;
  private final List<Address> registries = new ArrayList<>(List.of(new Address("reg1", 18811)));
  // Also for tests that change records while the server stands still.
  private final DurableFiles files = new DurableFiles(new Vitals());
  private Metrics metrics;
  private Reservations reservations;
  private Runs runs;
  private Clusters clusters;
  private RpcServer server;
  private RpcChannel channel;

  Machine(Path folder) {
    state = folder.resolve("state");
    locks = folder.resolve("locks");
    script = folder.resolve("supervisor.sh");
    try {
      Files.createDirectory(locks);
      Files.writeString(script, SUPERVISOR);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    gpus =
        GpuMonitor.ofSimulation(
            "1", NAME, new GpuMonitor.Timing(Duration.ofMillis(50), Duration.ofSeconds(5)));
    start();
  }

  /** Those since the last start. */
  Metrics metrics() {
    return metrics;
  }

  void start() {
    metrics = new Metrics();
    Vitals vitals = new Vitals();
    reservations =
        Reservations.open(
            new Reservations.Settings(NAME, locks, state, "20000-20999", false),
            gpus,
            files,
            vitals,
            metrics);
    runs =
        Runs.open(
            new Runs.Settings(
                NAME,
                state,
                Services.none(),
                MountRules.none(),
                new UidRange(2_100_000_000, 2_100_009_999),
                Duration.ofSeconds(1),
                1 << 20,
                Duration.ofDays(1),
                1 << 20,
                Disks.PLENTY,
                false),
            reservations,
            gpus,
            new ProcessRuntime(id -> Runs.folder(state, id), true),
            files,
            vitals,
            metrics);
    clusters =
        Clusters.open(
            new Clusters.Settings(
                NAME, state, command(), sandbox(), () -> List.copyOf(registries), FAST),
            files,
            runs::unpackBundle,
            metrics);
    ClusterGrpcService service = new ClusterGrpcService(clusters);
    server =
        RpcServer.listenOn(new Address("127.0.0.1", 0))
            .service(new RunGrpcService(NAME, runs))
            .service(service)
            .endStreams(service::close)
            .endStreams(clusters::close)
            .start();
    channel = RpcChannel.to(server.address());
  }

  /** Ends the server as a signal does. Its supervisors go on. */
  void stop() {
    server.close();
    channel.close();
    clusters.close();
    runs.close();
    reservations.close();
  }

  @Override
  public void close() {
    stop();
    gpus.close();
    clusterFolders().forEach(this::killSupervisor);
    files.close();
  }

  // By its record: of the numbers that supervisors noted, others may be the owners now.
  private void killSupervisor(Path clusterFolder) {
    try {
      new ClusterFolder(clusterFolder, files)
          .supervisor()
          .process()
          .filter(SupervisorProcess::alive)
          .filter(last -> last.pid() != ProcessHandle.current().pid())
          .ifPresent(last -> kill(last.pid()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The first words of the command of a supervisor. */
  List<String> command() {
    return List.of("/bin/sh", script.toString());
  }

  /** As an installed server has it, as whoever runs the tests. */
  SupervisorSandbox sandbox() {
    return SupervisorSandbox.of(new UidRange(2_100_000_000, 2_100_000_999), List.of(script));
  }

  ClusterFolder place(String clusterId) {
    return new ClusterFolder(folderOf(clusterId), files);
  }

  Path state() {
    return state;
  }

  List<Address> registries() {
    return registries;
  }

  Clusters clusters() {
    return clusters;
  }

  ClusterServiceBlockingStub stub() {
    return ClusterServiceGrpc.newBlockingStub(channel.channel())
        .withDeadlineAfter(PATIENCE.toSeconds(), TimeUnit.SECONDS);
  }

  ClusterServiceStub asyncStub() {
    return ClusterServiceGrpc.newStub(channel.channel());
  }

  Path folderOf(String clusterId) {
    return state.resolve("clusters").resolve(clusterId);
  }

  List<Path> clusterFolders() {
    try (Stream<Path> all = Files.list(state.resolve("clusters"))) {
      return all.toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The supervisors that were started for a cluster, oldest first. */
  static List<Integer> starts(Path clusterFolder) {
    return startLines(clusterFolder).stream()
        .map(line -> Integer.parseInt(line.substring(0, line.indexOf(' '))))
        .toList();
  }

  static List<String> startLines(Path clusterFolder) {
    try {
      return Files.readAllLines(clusterFolder.resolve("state/starts"));
    } catch (IOException e) {
      return List.of();
    }
  }

  int awaitStart(String clusterId, int number) {
    Path folder = folderOf(clusterId);
    await().atMost(PATIENCE).until(() -> starts(folder).size() >= number);
    return starts(folder).get(number - 1);
  }

  static boolean alive(int pid) {
    return KernelFiles.startOf(pid).isPresent();
  }

  /** As kill -9 does. */
  static void kill(int pid) {
    ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
    await().atMost(PATIENCE).until(() -> !alive(pid));
  }

  /** Uploads a cluster whose supervisor behaves as said. */
  String upload(String behaviour, Map<String, ClusterStatus> statuses) {
    Map<String, byte[]> files = new TreeMap<>();
    statuses.forEach((name, status) -> files.put(name, SealedMessage.seal(status)));
    files.put("cluster.json", "{}".getBytes(StandardCharsets.UTF_8));
    files.put("behaviour.sh", behaviour.getBytes(StandardCharsets.UTF_8));
    return upload(files);
  }

  String upload(Map<String, byte[]> files) {
    byte[] tar = tar(files);
    String digest = sha256(tar);
    CompletableFuture<UploadBundleResponse> answer = new CompletableFuture<>();
    StreamObserver<UploadBundleRequest> upload =
        RunServiceGrpc.newStub(channel.channel()).uploadBundle(answering(answer));
    upload.onNext(UploadBundleRequest.newBuilder().setDigest(digest).build());
    upload.onNext(UploadBundleRequest.newBuilder().setData(ByteString.copyFrom(tar)).build());
    upload.onCompleted();
    return answer.orTimeout(PATIENCE.toSeconds(), TimeUnit.SECONDS).join().getDigest();
  }

  private static <T extends Message> StreamObserver<T> answering(CompletableFuture<T> answer) {
    return new StreamObserver<>() {
      @Override
      public void onNext(T response) {
        answer.complete(response);
      }

      @Override
      public void onError(Throwable failure) {
        answer.completeExceptionally(failure);
      }

      @Override
      public void onCompleted() {}
    };
  }

  private static byte[] tar(Map<String, byte[]> files) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes, "UTF-8")) {
      for (Map.Entry<String, byte[]> file : files.entrySet()) {
        TarArchiveEntry entry = new TarArchiveEntry(file.getKey());
        entry.setSize(file.getValue().length);
        tar.putArchiveEntry(entry);
        tar.write(file.getValue());
        tar.closeArchiveEntry();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return bytes.toByteArray();
  }

  private static String sha256(byte[] data) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
