package berth.server.cluster;

import berth.host.state.DurableFiles;
import berth.host.state.StateFolder;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.supervision.SupervisionFolder;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import berth.v1.StartClusterRequest;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The clusters that this server supervises, from their acceptance until they are forgotten. Any
 * thread may call.
 */
public final class Clusters implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(Clusters.class);
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]*");
  private static final int LONGEST_NAME = 100;
  private static final int LONGEST_REQUEST_ID = 100;
  private static final int LONGEST_OWNER = 200;
  private static final int LONGEST_BUNDLE = 200;
  private static final int MOST_UNFINISHED = 200;
  private static final int MOST_OF_ONE_OWNER = 50;
  private static final int MOST_FINISHED = 500;
  private static final int MOST_UNPACKING = 2;
  private static final Duration REGISTRIES_GOOD_FOR = Duration.ofSeconds(5);
  private static final Duration STOP_GRACE = Duration.ofSeconds(3);

  /**
   * How clusters are supervised.
   *
   * @param stateFolder of the server; clusters are below it
   * @param supervisorCommand the first words of the command of a supervisor, which the folder of
   *     its cluster and the option {@code --registry} follow; the first one is a path. Empty: this
   *     server cannot start any
   * @param sandbox in which supervisors run
   * @param registries finds those that supervisors should use; may take a while
   */
  public record Settings(
      String serverName,
      Path stateFolder,
      List<String> supervisorCommand,
      SupervisorSandbox sandbox,
      Supplier<List<Address>> registries,
      Timing timing) {
    public Settings {
      supervisorCommand = List.copyOf(supervisorCommand);
    }
  }

  /**
   * How often things are looked after.
   *
   * @param look between two looks at the supervisors
   * @param firstPause before a supervisor restarts; doubled for each further time
   * @param longestPause the end of that
   * @param settled how long one must have lived for the pauses to begin anew
   * @param quick one that lived for less has failed quickly; after many of these there is no hope
   * @param housekeeping between two looks for clusters that can be forgotten
   */
  public record Timing(
      Duration look,
      Duration firstPause,
      Duration longestPause,
      Duration settled,
      Duration quick,
      Duration housekeeping) {
    public static Timing usual() {
      return new Timing(
          Duration.ofSeconds(1),
          Duration.ofSeconds(1),
          Duration.ofSeconds(30),
          Duration.ofMinutes(1),
          Duration.ofSeconds(10),
          Duration.ofSeconds(30));
    }
  }

  private record Found(List<Address> registries, long atNanos) {}

  private record Supervised(StoredCluster cluster, Supervision supervision) {}

  /**
   * A request on its way to a cluster.
   *
   * @param cluster completes with it
   */
  private record Arrival(
      String id, StartClusterRequest request, CompletableFuture<StoredCluster> cluster) {
    boolean sameAs(StartClusterRequest other) {
      return request.getRequestId().equals(other.getRequestId());
    }
  }

  /** What a cluster takes of what there is for all, from the first moment on. */
  private record Taken(String id, String name, String user) {
    static Taken of(StoredCluster cluster) {
      return new Taken(cluster.id(), cluster.name(), cluster.owner().getUser());
    }

    static Taken of(Arrival arrival) {
      StartClusterRequest request = arrival.request;
      return new Taken(arrival.id, request.getName(), request.getOwner().getUser());
    }
  }

  private final Settings settings;
  private final DurableFiles files;
  private final BiConsumer<String, Path> unpack;
  private final Path folder;
  private final Clock clock = Clock.systemUTC();
  private final SecureRandom random = new SecureRandom();
  private final Map<String, Supervised> clusters = new LinkedHashMap<>();
  private final Map<String, Arrival> arriving = new LinkedHashMap<>();
  // What is unpacked may be large, and what all of them write between two looks at the disk.
  private final Semaphore unpacking = new Semaphore(MOST_UNPACKING, true);
  // One thread: it may have to wait for registries.
  private final ScheduledThreadPoolExecutor supervising;
  private final ScheduledThreadPoolExecutor timer;
  private final ThreadPoolExecutor threads;
  private volatile Optional<Found> found = Optional.empty();
  private volatile boolean closed;

  private Clusters(Settings settings, DurableFiles files, BiConsumer<String, Path> unpack) {
    this.settings = settings;
    this.files = files;
    this.unpack = unpack;
    this.folder = settings.stateFolder.toAbsolutePath().resolve("clusters");
    supervising = timer(1, "cluster-supervising");
    // Those who watch do not wait for what is deleted.
    timer = timer(2, "cluster-timer");
    // Who comes when this is closed is told so, rather than nothing.
    threads =
        new ThreadPoolExecutor(
            0,
            Integer.MAX_VALUE,
            10,
            TimeUnit.SECONDS,
            new SynchronousQueue<>(),
            DaemonThreads.numbered("cluster-worker"),
            (task, full) -> task.run());
  }

  /**
   * Takes up the clusters of an earlier daemon, with the supervisors that still live, and starts to
   * serve. Waits for none of them.
   *
   * @param files writes what must not be lost
   * @param unpack puts the files of the bundle with the given digest into a folder
   * @throws BerthException if the state folder cannot be used
   */
  public static Clusters open(
      Settings settings, DurableFiles files, BiConsumer<String, Path> unpack, Metrics metrics) {
    Clusters opened = new Clusters(settings, files, unpack);
    opened.recover();
    ClusterMetrics.report(opened::all, metrics);
    Timing timing = settings.timing;
    opened.supervising.scheduleWithFixedDelay(
        opened::supervise, 0, timing.look.toMillis(), TimeUnit.MILLISECONDS);
    opened.timer.scheduleWithFixedDelay(
        opened::keepHouse, 0, timing.housekeeping.toMillis(), TimeUnit.MILLISECONDS);
    return opened;
  }

  String serverName() {
    return settings.serverName;
  }

  /**
   * Takes over a cluster. When this returns it will be carried out, whatever happens to this
   * process. Takes as long as it takes to unpack the bundle, after those that came before, and to
   * find a registry.
   *
   * @throws BerthException as the proto says
   */
  StoredCluster start(StartClusterRequest request) {
    check(request);
    Arrival mine =
        new Arrival(
            "c-" + HexFormat.of().toHexDigits(random.nextLong(), 10),
            request,
            new CompletableFuture<>());
    Optional<CompletableFuture<StoredCluster>> first = admit(mine);
    if (first.isPresent()) {
      return awaitFirst(first.get());
    }
    Supervised added;
    try {
      added = takeOver(mine);
    } catch (RuntimeException | Error e) {
      synchronized (this) {
        arriving.remove(mine.id);
      }
      mine.cluster.completeExceptionally(e);
      throw e;
    }
    mine.cluster.complete(added.cluster);
    log.info("{} ({}) accepted from {}", mine.id, request.getName(), shown(request.getOwner()));
    supervising.execute(() -> look(added));
    return added.cluster;
  }

  private static StoredCluster awaitFirst(CompletableFuture<StoredCluster> first) {
    try {
      return first.join();
    } catch (CompletionException e) {
      throw e.getCause() instanceof BerthException refused
          ? new BerthException(refused.reason(), refused.getMessage(), refused)
          : e;
    }
  }

  private Supervised takeOver(Arrival arrival) {
    List<String> command = settings.supervisorCommand;
    if (command.isEmpty() || !Files.isExecutable(Path.of(command.get(0)))) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "this server cannot start supervisors: "
              + (command.isEmpty() ? "it is not installed" : "there is no " + command.get(0)));
    }
    List<Address> registries = registries();
    if (registries.isEmpty()) {
      throw new BerthException(
          Reason.UNAVAILABLE, "this server knows no registry, which a cluster needs");
    }
    ClusterFolder place = new ClusterFolder(folder.resolve(arrival.id), files);
    unpacking.acquireUninterruptibly();
    try {
      checkOpen();
      OptionalInt supervisor = create(place);
      String bundle = arrival.request.getBundle();
      unpack.accept(bundle, place.shared().packageFolder());
      if (!Files.isRegularFile(place.shared().description(), LinkOption.NOFOLLOW_LINKS)) {
        throw invalid("the bundle " + bundle + " has no " + SupervisionFolder.DESCRIPTION);
      }
      place.keepPackage(supervisor);
      StoredCluster submitted = submit(place, arrival.request, registries);
      synchronized (this) {
        checkOpen();
        arriving.remove(arrival.id);
        return add(submitted);
      }
    } catch (RuntimeException | Error e) {
      place.delete();
      throw e;
    } finally {
      unpacking.release();
    }
  }

  private void checkOpen() {
    if (closed) {
      throw new BerthException(Reason.UNAVAILABLE, "this server is stopping");
    }
  }

  // One at a time: each has a user of its own, which only its folder tells.
  private synchronized OptionalInt create(ClusterFolder place) {
    try {
      OptionalInt supervisor = settings.sandbox.newUser(folder);
      place.create(supervisor);
      return supervisor;
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot use the folder of clusters " + folder + ": " + e, e);
    }
  }

  private static void check(StartClusterRequest request) {
    String name = request.getName();
    if (!NAME.matcher(name).matches()) {
      throw invalid(
          "a cluster name has only letters, digits, and . _ -, and begins with a letter or a digit;"
              + " given: '"
              + PlainText.clean(name.substring(0, Math.min(name.length(), LONGEST_NAME)))
              + "'");
    }
    PlainText.check("the name", name, LONGEST_NAME);
    PlainText.check("the request id", request.getRequestId(), LONGEST_REQUEST_ID);
    PlainText.check("the bundle", request.getBundle(), LONGEST_BUNDLE);
    checked(request.getOwner());
  }

  // Nothing but what an owner is: whatever else came with it would be kept too.
  private static Owner checked(Owner owner) {
    PlainText.check("the owner", shown(owner), LONGEST_OWNER);
    return Owner.newBuilder().setUser(owner.getUser()).setHost(owner.getHost()).build();
  }

  private static String shown(Owner owner) {
    return owner.getUser() + "@" + owner.getHost();
  }

  /**
   * Counts a request among the clusters before anything is done for it.
   *
   * @return the cluster that it has become already, or is about to; then it is not counted again
   * @throws BerthException if there may be no such cluster now
   */
  private synchronized Optional<CompletableFuture<StoredCluster>> admit(Arrival mine) {
    checkOpen();
    StartClusterRequest request = mine.request;
    if (!request.getRequestId().isEmpty()) {
      Optional<CompletableFuture<StoredCluster>> known =
          all().stream()
              .filter(cluster -> cluster.requestId().equals(request.getRequestId()))
              .map(CompletableFuture::completedFuture)
              .findFirst()
              .or(
                  () ->
                      arriving.values().stream()
                          .filter(other -> other.sameAs(request))
                          .map(Arrival::cluster)
                          .findFirst());
      if (known.isPresent()) {
        return known;
      }
    }
    List<Taken> unfinished =
        Stream.concat(
                all().stream().filter(cluster -> !cluster.ended()).map(Taken::of),
                arriving.values().stream().map(Taken::of))
            .toList();
    for (Taken other : unfinished) {
      if (other.name.equals(request.getName())) {
        throw new BerthException(
            Reason.ALREADY_EXISTS,
            "the cluster "
                + other.name
                + " runs here already ("
                + other.id
                + "); cancel it, or choose another name");
      }
    }
    if (unfinished.size() >= MOST_UNFINISHED) {
      throw new BerthException(
          Reason.EXHAUSTED,
          unfinished.size() + " clusters run on " + serverName() + ", the maximum");
    }
    long own =
        unfinished.stream()
            .filter(other -> other.user.equals(request.getOwner().getUser()))
            .count();
    if (own >= MOST_OF_ONE_OWNER) {
      throw new BerthException(
          Reason.EXHAUSTED,
          own
              + " clusters of "
              + shown(request.getOwner())
              + " run on "
              + serverName()
              + ", the maximum per owner; cancel one");
    }
    arriving.put(mine.id, mine);
    return Optional.empty();
  }

  // Waits for the disk: call without the lock.
  private StoredCluster submit(
      ClusterFolder place, StartClusterRequest request, List<Address> registries) {
    ClusterStatus submitted =
        ClusterStatus.newBuilder()
            .setClusterId(place.id())
            .setName(request.getName())
            .setServer(serverName())
            .setOwner(checked(request.getOwner()))
            .setSubmittedAt(Messages.timestamp(clock.instant()))
            .build();
    SupervisorRecord supervisor = SupervisorRecord.none(registries);
    place.submit(submitted, request.getRequestId(), supervisor);
    return new StoredCluster(
        serverName(), place, submitted, request.getRequestId(), supervisor, timer);
  }

  private Supervised add(StoredCluster cluster) {
    Supervised added =
        new Supervised(
            cluster,
            new Supervision(
                cluster,
                settings.sandbox,
                settings.supervisorCommand,
                this::registries,
                settings.timing,
                System::nanoTime));
    clusters.put(cluster.id(), added);
    return added;
  }

  /** Never under a lock. */
  private List<Address> registries() {
    Optional<Found> last = found;
    // Many supervisors may start at once.
    if (last.isPresent()
        && System.nanoTime() - last.get().atNanos < REGISTRIES_GOOD_FOR.toNanos()) {
      return last.get().registries;
    }
    List<Address> now = settings.registries.get();
    found = now.isEmpty() ? Optional.empty() : Optional.of(new Found(now, System.nanoTime()));
    return now;
  }

  /**
   * The cluster of this id.
   *
   * @throws BerthException NOT_FOUND if there is none
   */
  synchronized StoredCluster find(String id) {
    Supervised supervised = clusters.get(id);
    if (supervised == null) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no cluster '" + id + "' on " + serverName() + ": unknown or already deleted");
    }
    return supervised.cluster;
  }

  private synchronized List<StoredCluster> all() {
    return clusters.values().stream().map(Supervised::cluster).toList();
  }

  /**
   * The cluster as it is now.
   *
   * @throws BerthException NOT_FOUND if it has been forgotten
   */
  ClusterStatus status(StoredCluster cluster) {
    ClusterStatus status = cluster.status();
    // Of one that was deleted meanwhile not all has been read.
    find(cluster.id());
    return status;
  }

  /**
   * All clusters as they are now, oldest first.
   *
   * @param shortened of each what is to be kept of it: one may be large, and all together too large
   */
  List<ClusterStatus> list(UnaryOperator<ClusterStatus> shortened) {
    List<ClusterStatus> read =
        all().stream().map(cluster -> shortened.apply(cluster.status())).toList();
    synchronized (this) {
      // Of those that were deleted meanwhile not all has been read.
      return read.stream().filter(status -> clusters.containsKey(status.getClusterId())).toList();
    }
  }

  /**
   * Notes that a cluster is to end; its supervisor sees to it.
   *
   * @throws BerthException as the proto says
   */
  void cancel(CancelClusterRequest request) {
    StoredCluster cluster = find(request.getClusterId());
    CancelClusterRequest.Builder noted =
        CancelClusterRequest.newBuilder().setClusterId(cluster.id()).setForce(request.getForce());
    if (request.hasBy()) {
      noted.setBy(checked(request.getBy()));
    }
    cluster.cancel(noted.build());
  }

  /** For what may take a while. */
  Executor threads() {
    return threads;
  }

  /** Leaves the clusters and their supervisors as they are, for the next daemon. */
  @Override
  public void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    List<ThreadPoolExecutor> pools = List.of(supervising, timer, threads);
    pools.forEach(ThreadPoolExecutor::shutdown);
    try {
      long deadline = System.nanoTime() + STOP_GRACE.toNanos();
      for (ThreadPoolExecutor pool : pools) {
        pool.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void recover() {
    List<ClusterFolder> left = new ArrayList<>();
    List<StoredCluster> known = new ArrayList<>();
    try {
      StateFolder.create(folder);
      try (DirectoryStream<Path> all = Files.newDirectoryStream(folder, "c-*")) {
        for (Path path : all) {
          ClusterFolder place = new ClusterFolder(path, files);
          try {
            Optional<StoredCluster> found = read(place);
            found.ifPresent(known::add);
            if (found.isEmpty() && place.isDamaged()) {
              log.error("{} is ignored: its request is missing", path);
            } else if (found.isEmpty()) {
              left.add(place);
            }
          } catch (IOException | RuntimeException e) {
            log.error("{} is ignored, it cannot be read: {}", path, e.toString());
          }
        }
      }
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot use the folder of clusters " + folder + ": " + e, e);
    }
    known.sort(Comparator.comparing(StoredCluster::submittedAt));
    known.forEach(this::add);
    threads.execute(() -> left.forEach(ClusterFolder::delete));
  }

  // Empty if it never became a cluster, or is none any more.
  private Optional<StoredCluster> read(ClusterFolder place) throws IOException {
    place.tidy();
    Optional<ClusterStatus> submitted = place.submitted();
    if (submitted.isEmpty()) {
      return Optional.empty();
    }
    // Looked at now, while there may be a copy of one that is damaged.
    place.cancel();
    return Optional.of(
        new StoredCluster(
            serverName(), place, submitted.get(), place.requestId(), place.supervisor(), timer));
  }

  private void supervise() {
    List<Supervised> all;
    synchronized (this) {
      all = List.copyOf(clusters.values());
    }
    all.forEach(this::look);
  }

  private void look(Supervised one) {
    if (closed) {
      return;
    }
    try {
      one.supervision.look();
    } catch (RuntimeException | Error e) {
      // What a timer throws would be the last that it does.
      log.error("cannot supervise {}", one.cluster.id(), e);
    }
  }

  private void keepHouse() {
    List<StoredCluster> finished = new ArrayList<>();
    for (StoredCluster cluster : all()) {
      try {
        cluster.folder().trimLog();
        if (cluster.over()) {
          finished.add(cluster);
        }
      } catch (RuntimeException | Error e) {
        log.warn("cannot maintain {}: {}", cluster.id(), e.getMessage());
      }
    }
    for (int i = 0; i < finished.size() && !closed; i++) {
      boolean tooMany = finished.size() - i > MOST_FINISHED;
      if (tooMany || finished.get(i).forgotten(clock.instant())) {
        forget(finished.get(i));
      }
    }
  }

  private void forget(StoredCluster cluster) {
    synchronized (this) {
      clusters.remove(cluster.id());
    }
    cluster.folder().delete();
    log.info("{} ({}) is forgotten", cluster.id(), cluster.name());
  }

  private static BerthException invalid(String message) {
    return new BerthException(Reason.INVALID, message);
  }

  private static ScheduledThreadPoolExecutor timer(int size, String name) {
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(size, DaemonThreads.numbered(name));
    timer.setRemoveOnCancelPolicy(true);
    timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    timer.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy());
    return timer;
  }
}
