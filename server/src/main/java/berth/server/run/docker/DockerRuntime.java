package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservations;
import berth.server.run.Launch;
import berth.server.run.Runtime;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.command.InspectImageResponse;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.exception.ConflictException;
import com.github.dockerjava.api.exception.DockerClientException;
import com.github.dockerjava.api.exception.DockerException;
import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.exception.NotModifiedException;
import com.github.dockerjava.api.model.Container;
import com.github.dockerjava.api.model.Event;
import com.github.dockerjava.core.DefaultDockerClientConfig;
import com.github.dockerjava.core.DockerClientImpl;
import com.github.dockerjava.zerodep.ZerodepDockerHttpClient;
import java.io.IOException;
import java.net.ConnectException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs in containers of a Docker engine. A run's container has a name made of the run's id, so it
 * is found again, and labels that say whose it is.
 */
public final class DockerRuntime implements Runtime {
  private static final Logger log = LoggerFactory.getLogger(DockerRuntime.class);

  private static final int MOST_CONNECTIONS = 2000;
  private static final int MOST_BROKEN = 20;
  private static final Duration CONNECTING = Duration.ofSeconds(5);
  private static final Duration OUTAGE = Duration.ofSeconds(60);
  private static final Duration ASK_AGAIN = Duration.ofMillis(100);
  private static final Duration EVENTS_BACK = Duration.ofSeconds(60);
  // How programs end that an engine stops: by SIGKILL, or by SIGTERM.
  private static final Set<Integer> KILLED = Set.of(137, 143);
  // What an engine says that comes back and cannot find out how a program ended.
  private static final int NOBODY_KNOWS = 255;
  private static final Duration RETRY = Duration.ofMillis(250);

  /**
   * Which engine, and whose runs.
   *
   * @param host the engine's address, such as {@code unix:///var/run/docker.sock}
   * @param stateFolder of this server, by which its containers are told from those of others
   * @param simulated whether the GPUs are simulated, and need no device
   * @param reapAfter how long another server of this machine may be dead until its containers are
   *     removed
   */
  public record Settings(
      String host, String serverName, Path stateFolder, boolean simulated, Duration reapAfter) {}

  private final Settings settings;
  private final String state;
  private final DockerClient docker;
  private final Launcher launcher = Launcher.ofThisMachine();
  private final Map<String, Path> peakFiles = new ConcurrentHashMap<>();
  private final Set<String> startedHere = ConcurrentHashMap.newKeySet();
  private final Set<String> signalled = ConcurrentHashMap.newKeySet();
  private final Map<String, Instant> deadSince = new HashMap<>();
  private volatile Optional<Runtime.Info> found = Optional.empty();
  private volatile GpuAccess gpuAccess = GpuAccess.NONE;

  /** Does not need the engine to be there yet. */
  public DockerRuntime(Settings settings) {
    this.settings = settings;
    this.state = settings.stateFolder.toAbsolutePath().toString();
    DefaultDockerClientConfig config =
        DefaultDockerClientConfig.createDefaultConfigBuilder()
            .withDockerHost(settings.host)
            .withDockerTlsVerify(false)
            .build();
    docker =
        DockerClientImpl.getInstance(
            config,
            new ZerodepDockerHttpClient.Builder()
                .dockerHost(config.getDockerHost())
                .maxConnections(MOST_CONNECTIONS)
                .connectionTimeout(CONNECTING)
                .build());
    Runtime.Info info = info();
    log.info("runs: {}; GPUs in containers: {}", info.engine(), info.gpuAccess());
    if (launcher.busybox().isEmpty()) {
      log.warn(
          "no static busybox on this machine (package busybox-static): images without /bin/sh"
              + " cannot be run");
    }
  }

  @Override
  public Runtime.Info info() {
    if (found.isPresent()) {
      return found.get();
    }
    try {
      com.github.dockerjava.api.model.Info engine = docker.infoCmd().exec();
      gpuAccess = settings.simulated ? GpuAccess.SIMULATED : gpuAccess(engine);
      found =
          Optional.of(
              new Runtime.Info(
                  "docker",
                  "Docker " + engine.getServerVersion() + " at " + settings.host,
                  true,
                  gpuAccess.description()));
      return found.get();
    } catch (RuntimeException e) {
      return new Runtime.Info("docker", unreachable(e).getMessage(), false, "unknown");
    }
  }

  @Override
  public Optional<String> problem() {
    Runtime.Info info = info();
    if (!info.usable()) {
      return Optional.of(info.engine());
    }
    try {
      answered(() -> docker.pingCmd().exec());
      return Optional.empty();
    } catch (RuntimeException e) {
      return Optional.of(unreachable(e).getMessage());
    }
  }

  private GpuAccess gpuAccess(com.github.dockerjava.api.model.Info engine) {
    Object cdi = engine.getRawValues().get("CDISpecDirs");
    List<Path> folders = new ArrayList<>();
    if (cdi instanceof List<?> list) {
      list.forEach(folder -> folders.add(Path.of(folder.toString())));
    }
    Map<String, ?> runtimes = engine.getRuntimes() == null ? Map.of() : engine.getRuntimes();
    return GpuAccess.find(runtimes, GpuAccess.enginePath(pidFile()), folders);
  }

  // Engines write it beside their socket.
  private Path pidFile() {
    Path socket = Path.of(settings.host.replaceFirst("^unix://", ""));
    try {
      return socket.toRealPath().resolveSibling("docker.pid");
    } catch (IOException e) {
      return socket.resolveSibling("docker.pid");
    }
  }

  @Override
  public void check(Launch launch) {
    problem()
        .ifPresent(
            why -> {
              throw new BerthException(Reason.UNAVAILABLE, why);
            });
    if (launch.image().isEmpty()) {
      throw new BerthException(Reason.INVALID, "neither a service nor an image is named to run in");
    }
  }

  @Override
  public Created create(Launch launch, Progress progress) throws InterruptedException {
    if (!launch.gpus().isEmpty() && gpuAccess == GpuAccess.NONE) {
      throw new BerthException(
          Reason.CONFLICT, "containers cannot get at GPUs: " + gpuAccess.description());
    }
    InspectImageResponse image = image(launch.image().orElseThrow(), progress);
    CreateContainerCmd creation =
        new Recipe(settings.serverName, state, launcher, gpuAccess)
            .of(launch, image, docker.createContainerCmd(image.getId()))
            .withName(name(launch.runId()));
    try {
      return created(calling(() -> creation.exec().getId()));
    } catch (ConflictException e) {
      // An earlier daemon has made it, or was killed while it asked for it.
      return created(find(launch.runId()).orElseThrow(() -> startFailed(e)).getId());
    } catch (DockerException e) {
      throw startFailed(e);
    }
  }

  private static Created created(String id) {
    return new Created(id, Optional.of(new Running(id, OptionalInt.empty(), true, List.of())));
  }

  private InspectImageResponse image(String name, Progress progress) throws InterruptedException {
    try {
      return calling(() -> docker.inspectImageCmd(name).exec());
    } catch (NotFoundException e) {
      pull(name, progress);
    }
    try {
      return calling(() -> docker.inspectImageCmd(name).exec());
    } catch (NotFoundException e) {
      throw imageNotFound(name, "the engine does not have it after fetching it");
    }
  }

  private void pull(String name, Progress progress) throws InterruptedException {
    log.info("fetching {}", name);
    progress.pulling(new Pull(name, 0, 0, 0, 0));
    boolean exact = name.contains("@") || name.lastIndexOf(':') > name.lastIndexOf('/');
    try (ImagePull pull = new ImagePull(name, progress::pulling)) {
      docker.pullImageCmd(exact ? name : name + ":latest").exec(pull);
      while (!pull.awaitEnd(ASK_AGAIN)) {
        if (!progress.wanted()) {
          throw new BerthException(Reason.CANCELLED, "the fetching of " + name + " was cancelled");
        }
      }
      if (pull.failure().isPresent()) {
        throw imageNotFound(name, pull.failure().get());
      }
    } catch (DockerException | DockerClientException e) {
      throw imageNotFound(name, text(e));
    } catch (IOException e) {
      throw unreachable(e);
    }
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
    if (!launch.folder().started()) {
      try {
        calling(() -> docker.startContainerCmd(name(launch.runId())).exec());
        startedHere.add(launch.runId());
      } catch (NotModifiedException e) {
        // It runs already.
      } catch (DockerException e) {
        // An engine may start a container and fail the call.
        if (!launch.folder().started()) {
          existing(launch.runId());
          throw startFailed(e);
        }
      }
    }
    return running(launch.runId());
  }

  private InspectContainerResponse existing(String runId) throws InterruptedException {
    return find(runId)
        .orElseThrow(
            () -> new BerthException(Reason.UNAVAILABLE, "somebody has removed its container"));
  }

  private Running running(String runId) throws InterruptedException {
    InspectContainerResponse now = existing(runId);
    Long pid = now.getState().getPidLong();
    OptionalInt process =
        pid == null || pid == 0 ? OptionalInt.empty() : OptionalInt.of(pid.intValue());
    process.ifPresent(id -> MemoryPeak.fileOf(id).ifPresent(file -> peakFiles.put(runId, file)));
    return new Running(now.getId(), process, true, List.of());
  }

  @Override
  public Exit await(String runId) throws InterruptedException {
    boolean outage = false;
    while (true) {
      try (WaitContainerResultCallback callback = new WaitContainerResultCallback()) {
        Integer code = docker.waitContainerCmd(name(runId)).exec(callback).awaitStatusCode();
        if (code == 0 && !outage && startedHere.contains(runId)) {
          // Just now. Of what an earlier daemon started only the engine knows when.
          return new Exit(0, false, Optional.empty(), "");
        }
        InspectContainerResponse container = docker.inspectContainerCmd(name(runId)).exec();
        if (!Boolean.TRUE.equals(container.getState().getRunning())) {
          Exit exit = exit(container.getState());
          if (outage && (KILLED.contains(exit.code()) || exit.code() == NOBODY_KNOWS)) {
            return exit.lostBecause("the Docker engine stopped under it");
          }
          return !outage && stoppedByOthers(runId, container)
              ? exit.lostBecause("the Docker engine stopped it, and Berth did not ask for that")
              : exit;
        }
      } catch (NotFoundException e) {
        return new Exit(0, false, Optional.empty(), "somebody has removed its container");
      } catch (IOException | RuntimeException e) {
        if (e.getCause() instanceof InterruptedException) {
          throw new InterruptedException();
        }
        // An engine that does not answer is not a program that has ended.
        if (!outage) {
          log.warn("the Docker engine has gone while {} ran: {}", runId, text(e));
          outage = true;
        }
      }
      Thread.sleep(RETRY.toMillis());
    }
  }

  // An engine that is shut down stops its containers first, and still answers as if they had ended
  // by themselves. But it has noted that it sent them a signal.
  private boolean stoppedByOthers(String runId, InspectContainerResponse container)
      throws InterruptedException {
    InspectContainerResponse.ContainerState state = container.getState();
    Long code = state.getExitCodeLong();
    if (code == null
        || !KILLED.contains(code.intValue())
        || Boolean.TRUE.equals(state.getOOMKilled())
        || signalled.contains(runId)) {
      return false;
    }
    AtomicBoolean sent = new AtomicBoolean();
    ResultCallback.Adapter<Event> events =
        new ResultCallback.Adapter<>() {
          @Override
          public void onNext(Event event) {
            sent.set(true);
          }
        };
    // It notes the signal after it has sent it.
    long until = Instant.now().getEpochSecond() + 1;
    docker
        .eventsCmd()
        .withContainerFilter(container.getId())
        .withEventFilter("kill")
        .withSince(Long.toString(until - EVENTS_BACK.toSeconds()))
        .withUntil(Long.toString(until))
        .exec(events)
        .awaitCompletion(EVENTS_BACK.toSeconds(), TimeUnit.SECONDS);
    return sent.get();
  }

  private static Exit exit(InspectContainerResponse.ContainerState state) {
    int code = state.getExitCodeLong() == null ? 0 : state.getExitCodeLong().intValue();
    Optional<Instant> at = Optional.empty();
    try {
      at = Optional.of(Instant.parse(state.getFinishedAt())).filter(i -> i.isAfter(Instant.EPOCH));
    } catch (DateTimeParseException e) {
      // The engine does not know.
    }
    return new Exit(code, Boolean.TRUE.equals(state.getOOMKilled()), at, "");
  }

  @Override
  public void signal(String runId, String signal) {
    signalled.add(runId);
    try {
      answered(() -> docker.killContainerCmd(name(runId)).withSignal("SIG" + signal).exec());
    } catch (NotFoundException | ConflictException e) {
      // It has ended.
    }
  }

  @Override
  public OptionalLong peakMemory(String runId) {
    Path file = peakFiles.get(runId);
    if (file == null) {
      try {
        Long pid = docker.inspectContainerCmd(name(runId)).exec().getState().getPidLong();
        if (pid != null && pid > 0) {
          MemoryPeak.fileOf(pid.intValue()).ifPresent(found -> peakFiles.put(runId, found));
        }
      } catch (RuntimeException e) {
        // It has ended, or the engine is away.
      }
      return OptionalLong.empty();
    }
    return MemoryPeak.read(file);
  }

  @Override
  public void remove(String runId) {
    peakFiles.remove(runId);
    signalled.remove(runId);
    startedHere.remove(runId);
    try {
      docker.removeContainerCmd(name(runId)).withForce(true).withRemoveVolumes(true).exec();
    } catch (NotFoundException e) {
      // There is none.
    } catch (ConflictException e) {
      // Somebody else removes it in this moment.
      throw new BerthException(Reason.UNAVAILABLE, text(e), e);
    } catch (RuntimeException e) {
      throw unreachable(e);
    }
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    if (!info().usable()) {
      return;
    }
    for (Container container :
        docker
            .listContainersCmd()
            .withShowAll(true)
            .withLabelFilter(List.of(Recipe.SERVER))
            .exec()) {
      Map<String, String> labels = container.getLabels();
      String runId = labels.get(Recipe.RUN);
      String owner = labels.get(Recipe.STATE);
      if (runId == null || owner == null) {
        continue;
      }
      if (owner.equals(state) ? !knownRun.test(runId) : deadForLong(owner)) {
        log.warn(
            "removing the container of {} of {}, whom nobody knows any more",
            runId,
            labels.get(Recipe.SERVER));
        try {
          remove(runId);
        } catch (BerthException e) {
          log.warn("cannot remove the container of {} now: {}", runId, e.getMessage());
        }
      }
    }
  }

  // The lock on its state folder tells whether a server lives.
  private boolean deadForLong(String otherState) {
    if (Reservations.serves(Path.of(otherState))) {
      deadSince.remove(otherState);
      return false;
    }
    Instant since = deadSince.computeIfAbsent(otherState, key -> Instant.now());
    return Duration.between(since, Instant.now()).compareTo(settings.reapAfter) >= 0;
  }

  @Override
  public void close() {
    try {
      docker.close();
    } catch (IOException e) {
      log.warn("cannot close the connection to Docker: {}", e.getMessage());
    }
  }

  private Optional<InspectContainerResponse> find(String runId) throws InterruptedException {
    try {
      return Optional.of(calling(() -> docker.inspectContainerCmd(name(runId)).exec()));
    } catch (NotFoundException e) {
      return Optional.empty();
    }
  }

  // Connections that were kept from before a restart of the engine break when they are used.
  private static <T> T answered(Supplier<T> call) {
    for (int broken = 0; ; broken++) {
      try {
        return call.get();
      } catch (DockerException e) {
        throw e;
      } catch (RuntimeException e) {
        if (broken == MOST_BROKEN || rootOf(e) instanceof ConnectException) {
          throw e;
        }
      }
    }
  }

  // What the engine answers is a DockerException; anything else means that it did not answer, which
  // a restart of it explains.
  private <T> T calling(Supplier<T> call) throws InterruptedException {
    long deadline = System.nanoTime() + OUTAGE.toNanos();
    while (true) {
      try {
        return call.get();
      } catch (DockerException | BerthException e) {
        throw e;
      } catch (RuntimeException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw new InterruptedException();
        }
        if (System.nanoTime() - deadline > 0) {
          throw unreachable(e);
        }
        Thread.sleep(RETRY.toMillis());
      }
    }
  }

  private BerthException unreachable(Exception e) {
    return new BerthException(
        Reason.UNAVAILABLE,
        "no Docker engine answers at "
            + settings.host
            + " ("
            + text(e)
            + "); start it, or start berthd with --runtime process",
        e);
  }

  private static BerthException startFailed(Exception e) {
    return new BerthException(Reason.CONFLICT, "the container cannot be started: " + text(e), e);
  }

  private static BerthException imageNotFound(String image, String why) {
    return new BerthException(
        Reason.NOT_FOUND,
        "image " + image + " is not on this server and cannot be fetched: " + why);
  }

  private static String name(String runId) {
    return "berth-" + runId;
  }

  // The engine's answers are JSON with one sentence in it.
  private static String text(Exception e) {
    String message = String.valueOf(rootOf(e).getMessage()).trim();
    int from = message.indexOf("{\"message\":\"");
    if (from >= 0) {
      String rest = message.substring(from + "{\"message\":\"".length());
      int to = rest.lastIndexOf("\"}");
      message = to < 0 ? rest : rest.substring(0, to);
    }
    return message.replace("\\\"", "\"").replace("\\n", " ").replaceAll("\\s+", " ");
  }

  private static Throwable rootOf(Exception e) {
    Throwable root = e;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return root;
  }
}
