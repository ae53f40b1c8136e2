package berth.client;

import berth.client.call.Download;
import berth.client.call.FollowedRun;
import berth.client.call.GivenServer;
import berth.client.call.GpuClient;
import berth.client.call.GpuServers;
import berth.client.call.ManyServers;
import berth.client.call.PlacedReservation;
import berth.client.call.PlacedRun;
import berth.client.call.PlacementListener;
import berth.client.call.RegistryClient;
import berth.client.call.RunClient;
import berth.client.call.RunRequests;
import berth.client.call.RunSearch;
import berth.client.call.ServerFilters;
import berth.client.call.ServerSource;
import berth.client.call.TarUnpacker;
import berth.client.cluster.Cluster;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterSubmission;
import berth.client.cluster.DetachedCluster;
import berth.client.spec.GpuServer;
import berth.client.spec.ReservationSpec;
import berth.client.spec.Resources;
import berth.client.spec.RunSpec;
import berth.client.spec.ServerGpu;
import berth.discovery.Discovery;
import berth.discovery.FoundRegistry;
import berth.discovery.Reach;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.DownloadFilesRequest;
import berth.v1.Gpu;
import berth.v1.Reservation;
import berth.v1.RunAccepted;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The servers of a group, or one server, and all that can be done with them: the front door of this
 * library.
 *
 * <pre>{@code
 * try (Berth berth = Berth.connect("registry1", "registry2:18811")) {
 *   RunSpec training = RunSpec.builder().service("tensorflow").script("train.py").gpus(1).build();
 *   RunResult result = berth.run(training, System.out::println);
 *   System.out.println(result.server() + ": exit code " + result.exitCode());
 * }
 * }</pre>
 *
 * <p>Any thread may call. Every failure that can be expected is a {@link BerthException}, whose
 * {@link BerthException#reason} says what may help: UNAVAILABLE or TIMED_OUT if no registry answers
 * or a server is lost, EXHAUSTED if nobody has enough of what was asked for, INVALID if that never
 * makes sense. A thread that is interrupted while it waits here ends what it waits for, and gets
 * CANCELLED; so does everybody after {@link #close}.
 *
 * <p>What was started here ends with this: closing it ends runs, reservations and clusters. Only
 * detached runs go on.
 */
public final class Berth implements AutoCloseable {
  private static final Duration SEARCH = Duration.ofSeconds(2);
  private static final Duration SAMPLE = Duration.ofSeconds(2);
  private static final Duration ANSWER = Duration.ofSeconds(10);
  private static final long MOST_BYTES = 100L << 30;

  private final ServerSource source;
  private final ExecutorService threads =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "berth");
            thread.setDaemon(true);
            return thread;
          });
  // What was started here and has not ended, and how to end it.
  private final Map<Object, Runnable> open = new ConcurrentHashMap<>();
  private boolean closed;

  private Berth(ServerSource source) {
    this.source = source;
  }

  /**
   * Uses registries that are equal: one that does not answer is left for the next. The connection
   * is made with the first call.
   *
   * @param registries {@code HOST} or {@code HOST:PORT}, at least one
   * @throws BerthException INVALID if one of them is not written so
   */
  public static Berth connect(String... registries) {
    return connect(
        Stream.of(registries).map(text -> Address.parse(text, RegistryClient.PORT)).toList());
  }

  /** The same with addresses. */
  public static Berth connect(List<Address> registries) {
    if (registries.isEmpty()) {
      throw new BerthException(Reason.INVALID, "name at least one registry");
    }
    return new Berth(RegistryClient.of(registries));
  }

  /**
   * Uses the registry that answers first on this machine or on the local network. Whoever hears the
   * question can answer it: only for networks of people you trust.
   *
   * @throws BerthException NOT_FOUND if none answers within two seconds
   */
  public static Berth discover() {
    List<FoundRegistry> found = Discovery.find(Reach.LOCAL_NETWORK, SEARCH);
    if (found.isEmpty()) {
      throw new BerthException(Reason.NOT_FOUND, "no registry answers on the local network");
    }
    return connect(List.of(found.get(0).address()));
  }

  /**
   * Uses one server, without any registry. The connection is made with the first call. What needs a
   * registry is refused with INVALID: clusters, and a choice of servers by label.
   *
   * @param server {@code HOST} or {@code HOST:PORT} of a {@code berthd}
   * @throws BerthException INVALID if it is not written so
   */
  public static Berth connectTo(String server) {
    return connectTo(Address.parse(server, GivenServer.PORT));
  }

  /** The same with an address. */
  public static Berth connectTo(Address server) {
    return new Berth(new GivenServer(server));
  }

  /**
   * Returns the servers that are there, by name.
   *
   * @throws BerthException UNAVAILABLE or TIMED_OUT if no registry answers, or not the one server
   */
  public List<GpuServer> servers() {
    return known(ServerFilter.getDefaultInstance()).stream().map(GpuServers::of).toList();
  }

  /**
   * Returns the GPUs of all servers, by the names of these and their own indices, with the newest
   * sample of each server, which is asked for it. Of a server that does not answer within two
   * seconds they have the state that the registry knows, and an unknown load.
   *
   * @throws BerthException as {@link #servers}
   */
  public List<ServerGpu> gpus() {
    return ManyServers.ask(known(ServerFilter.getDefaultInstance()), Berth::samples).stream()
        .flatMap(Berth::gpus)
        .toList();
  }

  private static Map<String, Gpu> samples(Address server) {
    try (GpuClient client = GpuClient.of(server)) {
      return client.listGpus(SAMPLE).getReport().getGpusList().stream()
          .collect(Collectors.toMap(Gpu::getUuid, gpu -> gpu, (one, other) -> one));
    }
  }

  private static Stream<ServerGpu> gpus(ManyServers.Answer<Map<String, Gpu>> answer) {
    Map<String, Gpu> samples = answer.value().orElse(Map.of());
    return GpuServers.of(answer.server()).gpus().stream()
        .map(
            gpu ->
                samples.containsKey(gpu.uuid())
                    ? GpuServers.now(gpu, samples.get(gpu.uuid()))
                    : gpu);
  }

  private List<Server> known(ServerFilter filter) {
    checkOpen();
    return source.listServers(filter);
  }

  /** The server of this name. */
  private Server server(String name) {
    return known(ServerFilter.newBuilder().addNames(name).build()).stream()
        .findFirst()
        .orElseThrow(
            () ->
                new BerthException(
                    Reason.NOT_FOUND,
                    source.registry().isPresent()
                        ? "no server " + name + " is registered at " + source
                        : "the server at " + source + " is not " + name));
  }

  /**
   * Returns the runs of all servers, also those that have ended, for as long as their servers keep
   * them. A server that does not answer is no failure: the list says so.
   *
   * @throws BerthException as {@link #servers}
   */
  public RunList runs() {
    return runs(known(ServerFilter.getDefaultInstance()));
  }

  /**
   * Returns the runs of one server, oldest first.
   *
   * @throws BerthException NOT_FOUND if there is no such server, UNAVAILABLE or TIMED_OUT if it
   *     does not answer
   */
  public List<RunInfo> runs(String server) {
    return runs(ManyServers.address(server(server)));
  }

  private static RunList runs(List<Server> servers) {
    List<RunInfo> runs = new ArrayList<>();
    Map<String, String> silent = new LinkedHashMap<>();
    for (ManyServers.Answer<List<RunInfo>> answer : ManyServers.ask(servers, Berth::runs)) {
      answer.value().ifPresent(runs::addAll);
      answer
          .failure()
          .ifPresent(why -> silent.put(answer.server().getInfo().getName(), why.getMessage()));
    }
    return new RunList(runs, silent);
  }

  private static List<RunInfo> runs(Address server) {
    try (RunClient client = RunClient.of(server)) {
      return client.listRuns(ANSWER).getRunsList().stream().map(RunInfo::of).toList();
    }
  }

  /**
   * Finds a run on any server, also one that has ended.
   *
   * @param id its id, or a beginning of it that no other run has
   * @throws BerthException NOT_FOUND if there is none, INVALID if several begin so, UNAVAILABLE if
   *     only a server that does not answer could tell, and as {@link #servers}
   */
  public RunInfo findRun(String id) {
    return RunInfo.of(search(id).run());
  }

  private RunSearch.Match search(String id) {
    return RunSearch.find(known(ServerFilter.getDefaultInstance()), id, ANSWER);
  }

  /** Only by its whole id: a beginning may be that of another run tomorrow. */
  private RunSearch.Match exactly(String id) {
    RunSearch.Match match = search(id);
    if (!match.run().getRunId().equals(id)) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no run '" + id + "'; the one that begins so is " + match.run().getRunId());
    }
    return match;
  }

  /**
   * Ends a run, whoever started it: takes it out of the queue, or ends its program with SIGTERM and
   * later SIGKILL. Returns as soon as its server has taken note.
   *
   * @param id its whole id
   * @throws BerthException NOT_FOUND if there is none, CONFLICT if it has ended, and as {@link
   *     #findRun}
   */
  public void cancelRun(String id) {
    RunSearch.Match match = exactly(id);
    try (RunClient client = RunClient.of(match.server())) {
      RunHandle.cancel(client, id);
    }
  }

  /**
   * Makes the server of a run that has ended forget it: its output and files are deleted when this
   * returns.
   *
   * @param id its whole id
   * @throws BerthException NOT_FOUND if there is none, CONFLICT if it has not ended, and as {@link
   *     #findRun}
   */
  public void removeRun(String id) {
    RunSearch.Match match = exactly(id);
    try (RunClient client = RunClient.of(match.server())) {
      client.removeRun(id, ANSWER);
    }
  }

  /**
   * Copies files of a run that has ended into a local folder, at most 100 GiB: see {@link
   * #fetchFiles(String, Path, long, List)}.
   *
   * @param patterns such as {@code model/*.h5}, relative to the folder in which the program
   *     started; none: all files
   */
  public FetchedFiles fetchFiles(String id, Path folder, String... patterns) throws IOException {
    return fetchFiles(id, folder, MOST_BYTES, List.of(patterns));
  }

  /**
   * Copies files of a run that has ended into a local folder, under the paths that they had below
   * the run's. What the server sends cannot get out of the folder: absolute names, {@code ..} and
   * ways through links are refused, links that lead out and devices are left out. Files that exist
   * are replaced once the new one is complete.
   *
   * @param id the run's whole id
   * @param folder is made if it is not there
   * @param maxBytes what the server may write here at most
   * @param patterns as {@code model/*.h5}; empty: all files
   * @return how many files came, and what was left out
   * @throws BerthException NOT_FOUND if there is no such run or file, CONFLICT if the run has not
   *     started, EXHAUSTED if there is more than {@code maxBytes}, INVALID if a name leads out of
   *     the folder, CANCELLED if this thread is interrupted; what came before is there then
   * @throws IOException if the folder cannot be written
   */
  public FetchedFiles fetchFiles(String id, Path folder, long maxBytes, List<String> patterns)
      throws IOException {
    RunSearch.Match match = exactly(id);
    DownloadFilesRequest request =
        DownloadFilesRequest.newBuilder()
            .setRunId(id)
            .addAllPaths(patterns.isEmpty() ? List.of(".") : patterns)
            .build();
    List<String> leftOut = new ArrayList<>();
    try (RunClient client = RunClient.of(match.server())) {
      int files =
          Download.into(
              folder,
              client,
              request,
              UnaryOperator.identity(),
              TarUnpacker.Limits.bytes(maxBytes),
              TarUnpacker.Existing.REPLACE,
              leftOut::add);
      return new FetchedFiles(files, leftOut);
    } catch (InterruptedIOException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while fetching files", e);
    }
  }

  /**
   * Runs code on a server that has what it needs, and returns when it has ended. If no server has
   * that now, the run waits at one of them, as long as {@link Resources#waitAtMost} says.
   *
   * @param lines gets what the program prints, both streams, line by line, from another thread; all
   *     of it before this returns
   * @return how the program ended, however it did: its exit code is no failure
   * @throws BerthException if the program never ran: INVALID if the request can be met nowhere, or
   *     the script or a file is not there, NOT_FOUND if there is no such service or image, DENIED
   *     for a mount that is not allowed, EXHAUSTED if too little is free and it does not wait,
   *     TIMED_OUT if it waited too long, CONFLICT if it could not be started, or may run on a
   *     server that is lost; CANCELLED if somebody cancelled it; UNAVAILABLE if no registry or
   *     server answers, or its server was lost for half a minute
   */
  public RunResult run(RunSpec spec, Consumer<String> lines) {
    return await(runAsync(spec, lines));
  }

  /**
   * The same without waiting for the end.
   *
   * @throws BerthException CANCELLED if this is closed; all else becomes the failure of {@link
   *     RunHandle#result}
   */
  public RunHandle runAsync(RunSpec spec, Consumer<String> lines) {
    return runAsync(spec, lines, lines);
  }

  /** The same with a consumer for each stream. */
  public RunHandle runAsync(RunSpec spec, Consumer<String> out, Consumer<String> err) {
    RunHandle run = new RunHandle(RunHandle.Kind.ATTACHED, out, err);
    start(run, self -> follow(spec, self));
    return run;
  }

  private void follow(RunSpec spec, RunHandle run) throws IOException {
    PlacementListener listener = new Placing(server -> {}, run::forget);
    try (RunRequests requests = new RunRequests(spec);
        PlacedRun placed = new PlacedRun(source, run.events(), listener)) {
      run.attend(placed::client, placed::runId, () -> place(placed, requests, spec, false));
    }
  }

  private void place(PlacedRun placed, RunRequests requests, RunSpec spec, boolean detached)
      throws IOException {
    placed.run(
        requests.request().setDetached(detached).build(),
        ServerFilters.of(source, spec),
        (request, client, services) ->
            requests.complete(request, client, services, UnaryOperator.identity()));
  }

  /**
   * Runs code that outlives this process, and returns as soon as a server has taken it: it has its
   * GPUs, or waits for them there.
   *
   * @throws BerthException as {@link #run}, if no server took it; CONFLICT if one that is lost may
   *     have
   */
  public DetachedRun runDetached(RunSpec spec) {
    checkOpen();
    AtomicReference<RunAccepted> accepted = new AtomicReference<>();
    PlacementListener listener = new Placing(server -> {}, () -> {});
    try (RunRequests requests = new RunRequests(spec);
        PlacedRun placed =
            new PlacedRun(source, event -> accepted.set(event.getAccepted()), listener)) {
      place(placed, requests, spec, true);
    } catch (IOException e) {
      throw RunHandle.unsent(e);
    }
    return new DetachedRun(accepted.get().getServer(), accepted.get().getRunId());
  }

  /**
   * Listens to a detached run from its beginning, also after its end, for as long as its server
   * knows it. Closing the handle, or this, leaves the run alone; {@link RunHandle#cancel} ends it.
   *
   * @param lines gets what the program prints, both streams, line by line
   * @return whose result fails with NOT_FOUND if there is no such server or run
   */
  public RunHandle attach(DetachedRun run, Consumer<String> lines) {
    RunHandle handle = new RunHandle(RunHandle.Kind.DETACHED, lines, lines);
    start(handle, self -> listen(run, self));
    return handle;
  }

  private void listen(DetachedRun run, RunHandle handle) throws IOException {
    try (RunClient client = RunClient.of(ManyServers.address(server(run.server())))) {
      FollowedRun followed = new FollowedRun(client, handle.events());
      handle.attend(
          () -> client,
          run::runId,
          () -> followed.attach(AttachRunRequest.newBuilder().setRunId(run.runId()).build()));
    }
  }

  /**
   * Reserves GPUs and ports of a server that has them, and returns when it has got them. They are
   * held until the reservation is closed, or this.
   *
   * @throws BerthException EXHAUSTED if too little is free and it does not wait, TIMED_OUT if it
   *     waited too long, INVALID if the request can be met nowhere, CONFLICT if a server that is
   *     lost may have granted it (it then ends with its lease), UNAVAILABLE if no registry or
   *     server answers
   */
  public GpuReservation reserve(ReservationSpec spec) {
    CompletableFuture<GpuReservation> granted = reserveAsync(spec);
    return await(granted, () -> granted.cancel(true));
  }

  /**
   * The same without waiting for it. Cancelling the future leaves the queue; what is granted in the
   * same moment is freed again.
   *
   * @throws BerthException CANCELLED if this is closed; all else becomes the failure of the future
   */
  public CompletableFuture<GpuReservation> reserveAsync(ReservationSpec spec) {
    CompletableFuture<GpuReservation> granted = new CompletableFuture<>();
    InterruptibleCall worker = new InterruptibleCall();
    track(worker, worker::end);
    granted.whenComplete(
        (held, why) -> {
          if (granted.isCancelled()) {
            worker.interrupt();
          }
        });
    threads.execute(
        () -> {
          worker.run(() -> reserve(spec, granted));
          forget(worker);
        });
    return granted;
  }

  private void reserve(ReservationSpec spec, CompletableFuture<GpuReservation> granted) {
    try {
      GpuReservation held = reserveNow(spec);
      if (!granted.complete(held)) {
        held.close();
      }
    } catch (RuntimeException | Error e) {
      granted.completeExceptionally(e);
    }
  }

  private GpuReservation reserveNow(ReservationSpec spec) {
    AtomicReference<Server> server = new AtomicReference<>();
    AtomicReference<Reservation> reservation = new AtomicReference<>();
    new PlacedReservation(
            source,
            response -> {
              if (response.hasGranted()) {
                reservation.set(response.getGranted());
              }
            },
            new Placing(server::set, () -> {}))
        .reserve(spec);
    GpuReservation held =
        new GpuReservation(
            this,
            server.get().getInfo().getName(),
            ManyServers.address(server.get()),
            reservation.get(),
            spec.lease());
    try {
      track(held, held::close);
      threads.execute(held::keep);
    } catch (BerthException e) {
      held.close();
      throw e;
    }
    return held;
  }

  /**
   * Hands a cluster over to one of the servers, which supervises it: it goes on without this
   * process. {@code berth clusters} and {@code berth cluster status} show it.
   *
   * @throws BerthException INVALID without a registry, or if it can never be formed with the
   *     servers there are, ALREADY_EXISTS if one of its name has not ended, UNAVAILABLE if no
   *     server takes it
   * @throws IOException if a file of a task cannot be read
   */
  public DetachedCluster clusterDetached(ClusterRequest request) throws IOException {
    return new ClusterSubmission(registryForClusters()).submit(request);
  }

  /**
   * Starts a cluster, see {@link Cluster}. It ends with this, if it has not been closed before.
   *
   * @param listener is told what happens to it
   * @throws BerthException as {@link Cluster#start}; INVALID without a registry
   */
  public Cluster cluster(ClusterRequest request, Consumer<ClusterEvent> listener) {
    checkOpen();
    Cluster cluster = Cluster.start(registryForClusters(), request, listener);
    try {
      track(cluster, cluster::close);
    } catch (BerthException e) {
      cluster.close();
      throw e;
    }
    cluster.ended().whenComplete((result, why) -> forget(cluster));
    return cluster;
  }

  private RegistryClient registryForClusters() {
    return source
        .registry()
        .orElseThrow(
            () ->
                new BerthException(
                    Reason.INVALID,
                    "a cluster needs a registry; this is one server, at " + source));
  }

  /**
   * Ends what was started here, all at once, and returns when it has ended: runs as by {@link
   * RunHandle#close}, reservations as by {@link GpuReservation#close}, clusters as by {@link
   * Cluster#close}. Detached runs go on. Must not be called by the consumers of lines and events.
   */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    List<CompletableFuture<Void>> endings =
        open.values().stream().map(end -> CompletableFuture.runAsync(end, threads)).toList();
    try {
      endings.forEach(CompletableFuture::join);
    } finally {
      source.close();
      threads.shutdown();
    }
  }

  /** Carries out a run in a thread of its own. */
  void start(RunHandle run, RunHandle.Following following) {
    track(run, run::close);
    threads.execute(
        () -> {
          try {
            run.carryOut(following, threads);
          } finally {
            forget(run);
          }
        });
  }

  private synchronized void track(Object started, Runnable end) {
    checkOpen();
    open.put(started, end);
  }

  void forget(Object ended) {
    open.remove(ended);
  }

  private synchronized void checkOpen() {
    if (closed) {
      throw new BerthException(Reason.CANCELLED, "this connection to Berth is closed");
    }
  }

  static RunResult await(RunHandle run) {
    return await(run.result(), run::close);
  }

  private static <T> T await(CompletableFuture<T> future, Runnable onInterrupt) {
    try {
      return future.get();
    } catch (InterruptedException e) {
      onInterrupt.run();
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while waiting", e);
    } catch (ExecutionException e) {
      if (e.getCause() instanceof BerthException failure) {
        // With the stack of whoever waited, too.
        throw new BerthException(failure.reason(), failure.getMessage(), failure);
      }
      if (e.getCause() instanceof RuntimeException failure) {
        throw failure;
      }
      throw new IllegalStateException(e.getCause());
    }
  }

  /** Learns where a request goes. */
  private record Placing(Consumer<Server> onPlaced, Runnable onPassed)
      implements PlacementListener {
    @Override
    public void placed(Server server, boolean waits) {
      onPlaced.accept(server);
    }

    @Override
    public void passed(Server server, BerthException why) {
      onPassed.run();
    }
  }
}
