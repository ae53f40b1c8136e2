package berth.server.cluster;

import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
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
import java.util.concurrent.Executor;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import java.util.regex.Pattern;
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
  private static final int MOST_UNFINISHED = 200;
  private static final int MOST_FINISHED = 500;
  private static final String DESCRIPTION = "cluster.json";
  private static final Duration REGISTRIES_GOOD_FOR = Duration.ofSeconds(5);
  private static final Duration STOP_GRACE = Duration.ofSeconds(3);

  /**
   * How clusters are supervised.
   *
   * @param stateFolder of the server; clusters are below it
   * @param supervisorCommand the first words of the command of a supervisor, which the folder of
   *     its cluster and the option {@code --registry} follow; the first one is a path. Empty: this
   *     server cannot start any
   * @param registries finds those that supervisors should use; may take a while
   */
  public record Settings(
      String serverName,
      Path stateFolder,
      List<String> supervisorCommand,
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
   * @param firstPause before a supervisor is started again; doubled for each further time
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

  private record Supervised(Cluster cluster, Supervision supervision) {}

  private final Settings settings;
  private final BiConsumer<String, Path> unpack;
  private final Path folder;
  private final Clock clock = Clock.systemUTC();
  private final SecureRandom random = new SecureRandom();
  private final Map<String, Supervised> clusters = new LinkedHashMap<>();
  // One thread: it may have to wait for registries.
  private final ScheduledThreadPoolExecutor supervising;
  private final ScheduledThreadPoolExecutor timer;
  private final ThreadPoolExecutor threads;
  private volatile Optional<Found> found = Optional.empty();
  private volatile boolean closed;

  private Clusters(Settings settings, BiConsumer<String, Path> unpack) {
    this.settings = settings;
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
            daemonThreads("cluster-worker"),
            (task, full) -> task.run());
  }

  /**
   * Takes up the clusters of an earlier daemon, with the supervisors that still live, and starts to
   * serve. Waits for none of them.
   *
   * @param unpack puts the files of the bundle with the given digest into a folder
   * @throws BerthException if the state folder cannot be used
   */
  public static Clusters open(Settings settings, BiConsumer<String, Path> unpack, Metrics metrics) {
    Clusters opened = new Clusters(settings, unpack);
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
   * process. Takes as long as it takes to unpack the bundle and to find a registry.
   *
   * @throws BerthException as the proto says
   */
  Cluster start(StartClusterRequest request) {
    check(request);
    Optional<Cluster> known = admit(request);
    if (known.isPresent()) {
      return known.get();
    }
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
    String id = "c-" + HexFormat.of().toHexDigits(random.nextLong(), 10);
    ClusterFolder place = new ClusterFolder(folder.resolve(id));
    Optional<Supervised> accepted = Optional.empty();
    try {
      place.create();
      unpack.accept(request.getBundle(), place.unpacked());
      if (!Files.isRegularFile(place.unpacked().resolve(DESCRIPTION), LinkOption.NOFOLLOW_LINKS)) {
        throw invalid("the bundle " + request.getBundle() + " has no " + DESCRIPTION);
      }
      place.syncUnpacked();
      synchronized (this) {
        known = admit(request);
        if (known.isPresent()) {
          return known.get();
        }
        accepted = Optional.of(accept(place, request, registries));
      }
    } finally {
      if (accepted.isEmpty()) {
        place.delete();
      }
    }
    Supervised added = accepted.get();
    log.info("{} ({}) accepted from {}", id, request.getName(), owner(request));
    supervising.execute(() -> look(added));
    return added.cluster;
  }

  private static void check(StartClusterRequest request) {
    String name = request.getName();
    if (!NAME.matcher(name).matches()) {
      throw invalid(
          "a cluster is named by letters, digits, and . _ - only, and begins with a letter or a"
              + " digit; given: '"
              + name.substring(0, Math.min(name.length(), LONGEST_NAME))
              + "'");
    }
    checkLength("the name", name, LONGEST_NAME);
    checkLength("the request id", request.getRequestId(), LONGEST_REQUEST_ID);
    checkLength("the owner", owner(request), LONGEST_OWNER);
  }

  private static void checkLength(String what, String text, int longest) {
    if (text.length() > longest) {
      throw invalid(what + " has " + text.length() + " characters, " + longest + " are allowed");
    }
  }

  private static String owner(StartClusterRequest request) {
    return request.getOwner().getUser() + "@" + request.getOwner().getHost();
  }

  /**
   * Whether a request may be taken up now.
   *
   * @return the cluster that it has become already
   */
  private synchronized Optional<Cluster> admit(StartClusterRequest request) {
    if (closed) {
      throw new BerthException(Reason.UNAVAILABLE, "this server is stopping");
    }
    if (!request.getRequestId().isEmpty()) {
      Optional<Cluster> known =
          all().stream()
              .filter(cluster -> cluster.requestId().equals(request.getRequestId()))
              .findFirst();
      if (known.isPresent()) {
        return known;
      }
    }
    List<Cluster> unfinished = all().stream().filter(cluster -> !cluster.ended()).toList();
    for (Cluster other : unfinished) {
      if (other.name().equals(request.getName())) {
        throw new BerthException(
            Reason.ALREADY_EXISTS,
            "the cluster "
                + other.name()
                + " runs here already ("
                + other.id()
                + "); cancel it, or say another name");
      }
    }
    if (unfinished.size() >= MOST_UNFINISHED) {
      throw new BerthException(
          Reason.EXHAUSTED,
          unfinished.size() + " clusters run on " + serverName() + ", as many as allowed");
    }
    return Optional.empty();
  }

  private Supervised accept(
      ClusterFolder place, StartClusterRequest request, List<Address> registries) {
    ClusterStatus submitted =
        ClusterStatus.newBuilder()
            .setClusterId(place.id())
            .setName(request.getName())
            .setServer(serverName())
            .setOwner(request.getOwner())
            .setSubmittedAt(Messages.timestamp(clock.instant()))
            .build();
    SupervisorRecord supervisor = SupervisorRecord.none(registries);
    place.submit(submitted, request.getRequestId(), supervisor);
    return add(
        new Cluster(serverName(), place, submitted, request.getRequestId(), supervisor, timer));
  }

  private Supervised add(Cluster cluster) {
    Supervised added =
        new Supervised(
            cluster,
            new Supervision(
                cluster,
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
  synchronized Cluster find(String id) {
    Supervised supervised = clusters.get(id);
    if (supervised == null) {
      throw new BerthException(
          Reason.NOT_FOUND,
          "there is no cluster '"
              + id
              + "' on "
              + serverName()
              + ": it never was, or is forgotten");
    }
    return supervised.cluster;
  }

  private synchronized List<Cluster> all() {
    return clusters.values().stream().map(Supervised::cluster).toList();
  }

  /**
   * The cluster as it is now.
   *
   * @throws BerthException NOT_FOUND if it has been forgotten
   */
  ClusterStatus status(Cluster cluster) {
    ClusterStatus status = cluster.status();
    // Of one that was deleted meanwhile not all has been read.
    find(cluster.id());
    return status;
  }

  /** All clusters as they are now, oldest first. */
  List<ClusterStatus> list() {
    List<ClusterStatus> read = all().stream().map(Cluster::status).toList();
    synchronized (this) {
      // Of those that were deleted meanwhile not all has been read.
      return read.stream().filter(status -> clusters.containsKey(status.getClusterId())).toList();
    }
  }

  /** Notes that a cluster is to end; its supervisor sees to it. */
  void cancel(CancelClusterRequest request) {
    find(request.getClusterId()).cancel(request);
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
    List<Cluster> known = new ArrayList<>();
    try {
      Files.createDirectories(folder);
      try (DirectoryStream<Path> all = Files.newDirectoryStream(folder, "c-*")) {
        for (Path path : all) {
          ClusterFolder place = new ClusterFolder(path);
          try {
            read(place).ifPresentOrElse(known::add, () -> left.add(place));
          } catch (IOException e) {
            log.error("{} cannot be read and is left alone: {}", path, e.toString());
          }
        }
      }
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE, "cannot use the folder of clusters " + folder + ": " + e, e);
    }
    known.sort(Comparator.comparing(Cluster::submittedAt));
    known.forEach(this::add);
    threads.execute(() -> left.forEach(ClusterFolder::delete));
  }

  // Empty if it never became a cluster, or is none any more.
  private Optional<Cluster> read(ClusterFolder place) throws IOException {
    Optional<ClusterStatus> submitted = place.submitted();
    if (submitted.isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(
        new Cluster(
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
    } catch (RuntimeException e) {
      log.error("cannot look after {}", one.cluster.id(), e);
    }
  }

  private void keepHouse() {
    List<Cluster> finished = new ArrayList<>();
    for (Cluster cluster : all()) {
      try {
        cluster.folder().trimLog();
        if (cluster.over()) {
          finished.add(cluster);
        }
      } catch (RuntimeException e) {
        log.warn("cannot keep {} in order: {}", cluster.id(), e.getMessage());
      }
    }
    for (int i = 0; i < finished.size() && !closed; i++) {
      boolean tooMany = finished.size() - i > MOST_FINISHED;
      if (tooMany || finished.get(i).forgotten(clock.instant())) {
        forget(finished.get(i));
      }
    }
  }

  private void forget(Cluster cluster) {
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
    ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(size, daemonThreads(name));
    timer.setRemoveOnCancelPolicy(true);
    timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    timer.setRejectedExecutionHandler(new ThreadPoolExecutor.DiscardPolicy());
    return timer;
  }

  private static ThreadFactory daemonThreads(String name) {
    AtomicInteger number = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, name + "-" + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
