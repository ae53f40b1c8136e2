package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.OtherServer;
import berth.server.run.Launch;
import berth.server.run.RunFolder;
import berth.server.run.RunSpec;
import berth.server.run.Runs;
import berth.server.run.Runtime;
import berth.server.run.UnlinkedFiles;
import berth.server.run.mount.RunMounts;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.command.InspectImageResponse;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.exception.ConflictException;
import com.github.dockerjava.api.exception.DockerException;
import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.exception.NotModifiedException;
import com.github.dockerjava.api.model.Container;
import com.github.dockerjava.api.model.Event;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs in containers of a Docker engine. A run's container has a name made of the run's id, so it
 * is found again, and labels that say whose it is.
 */
public final class DockerRuntime implements Runtime {
  private static final Logger log = LoggerFactory.getLogger(DockerRuntime.class);

  private static final Duration EVENTS_BACK = Duration.ofSeconds(60);
  // How programs end that an engine stops: by SIGKILL, or by SIGTERM.
  private static final Set<Integer> KILLED = Set.of(137, 143);
  // What an engine says that comes back and cannot find out how a program ended.
  private static final int NOBODY_KNOWS = 255;

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
  private final EngineClient engine;
  private final DockerClient docker;
  private final EngineHost host;
  private final Images images;
  private final RunMounts mounts;
  private final Launcher launcher = Launcher.ofThisMachine();
  private final Map<String, Path> peakFiles = new ConcurrentHashMap<>();
  private final Set<String> startedHere = ConcurrentHashMap.newKeySet();
  private final Set<String> signalled = ConcurrentHashMap.newKeySet();
  private final AtomicBoolean unmeasuredWarned = new AtomicBoolean();
  private final Map<String, Instant> deadSince = new HashMap<>();
  private volatile Runtime.Info info;
  private volatile GpuAccess gpuAccess = GpuAccess.NONE;

  /** Does not need the engine to be there yet. */
  public DockerRuntime(Settings settings) {
    this(settings, EngineClient.Patience.USUAL);
  }

  DockerRuntime(Settings settings, EngineClient.Patience patience) {
    this(settings, new EngineClient(settings.host, patience));
  }

  DockerRuntime(Settings settings, EngineClient engine) {
    this(settings, engine, new RunMounts(new EngineHost(settings.host)::pids));
  }

  DockerRuntime(Settings settings, EngineClient engine, RunMounts mounts) {
    this.settings = settings;
    this.state = settings.stateFolder.toAbsolutePath().toString();
    this.engine = engine;
    docker = engine.commands();
    host = new EngineHost(settings.host);
    images = new Images(engine);
    this.mounts = mounts;
    info = ask();
    unbindLeftovers();
    log.info("runs: {}; GPUs in containers: {}", info.engine(), info.gpuAccess());
    if (launcher.busybox().isEmpty()) {
      log.warn(
          "no static busybox on this machine (package busybox-static): images without /bin/sh"
              + " cannot be run");
    }
  }

  // Of one that was killed. What runs has its own by now, and what does not is bound anew.
  private void unbindLeftovers() {
    Path runs = Runs.folder(settings.stateFolder, "any").path().getParent();
    if (!Files.exists(runs)) {
      return;
    }
    try (Stream<Path> folders = Files.list(runs)) {
      folders.map(RunFolder::new).forEach(this::unbind);
    } catch (IOException | UncheckedIOException e) {
      log.warn("cannot look for mounts that an earlier berthd left: {}", e.getMessage());
    }
  }

  // What cannot be unbound now is so when the run is removed, or at the next start.
  private void unbind(RunFolder folder) {
    try {
      mounts.unbind(folder.mounts());
    } catch (BerthException e) {
      log.warn("cannot unmount {} now: {}", folder.mounts(), e.getMessage());
    }
  }

  @Override
  public Runtime.Info info() {
    return info;
  }

  @Override
  public Optional<String> problem() {
    if (!info.usable()) {
      info = ask();
      return info.usable() ? Optional.empty() : Optional.of(info.engine());
    }
    try {
      engine.ask(() -> docker.pingCmd().exec());
      return Optional.empty();
    } catch (RuntimeException e) {
      return Optional.of(engine.unreachable(e).getMessage());
    }
  }

  private Runtime.Info ask() {
    List<Path> folders = new ArrayList<>();
    host.socket().ifPresent(folders::add);
    try {
      com.github.dockerjava.api.model.Info said = engine.ask(() -> docker.infoCmd().exec());
      String path = GpuAccess.enginePath(host.pidFile());
      gpuAccess = settings.simulated ? GpuAccess.SIMULATED : gpuAccess(said, path);
      Optional<NvidiaToolkit> toolkit =
          settings.simulated ? Optional.empty() : NvidiaToolkit.find(path);
      toolkit
          .filter(found -> !found.isSafe())
          .ifPresent(found -> log.warn("{}", found.description()));
      Optional.ofNullable(said.getDockerRootDir()).map(Path::of).ifPresent(folders::add);
      return new Runtime.Info(
          "docker",
          "Docker " + said.getServerVersion() + " at " + settings.host,
          true,
          gpuAccess.description(),
          toolkit.map(NvidiaToolkit::description).orElse(""),
          List.copyOf(folders));
    } catch (RuntimeException e) {
      return new Runtime.Info(
          "docker", engine.unreachable(e).getMessage(), false, "unknown", "", List.copyOf(folders));
    }
  }

  private static GpuAccess gpuAccess(com.github.dockerjava.api.model.Info said, String path) {
    Object cdi = said.getRawValues().get("CDISpecDirs");
    List<Path> folders = new ArrayList<>();
    if (cdi instanceof List<?> list) {
      list.forEach(folder -> folders.add(Path.of(folder.toString())));
    }
    Map<String, ?> runtimes = said.getRuntimes() == null ? Map.of() : said.getRuntimes();
    return GpuAccess.find(runtimes, path, folders);
  }

  @Override
  public void check(Launch launch) {
    if (launch.image().isEmpty()) {
      throw new BerthException(Reason.INVALID, "neither a service nor an image is named to run in");
    }
    if (!launch.binds().isEmpty()) {
      mounts
          .problem(settings.stateFolder)
          .ifPresent(
              why -> {
                throw new BerthException(
                    Reason.DENIED,
                    "mount of " + launch.binds().get(0).source() + " asked, but " + why);
              });
    }
  }

  @Override
  public Created create(Launch launch, Progress progress) throws InterruptedException {
    return engine.understood(() -> createContainer(launch, progress));
  }

  private Created createContainer(Launch launch, Progress progress) throws InterruptedException {
    if (!info.usable()) {
      // Nobody knows yet what an engine can do that was away when this process came.
      problem()
          .ifPresent(
              why -> {
                throw new BerthException(Reason.UNAVAILABLE, why);
              });
    }
    if (!launch.gpus().isEmpty() && gpuAccess == GpuAccess.NONE) {
      throw new BerthException(
          Reason.CONFLICT, "containers cannot get at GPUs: " + gpuAccess.description());
    }
    InspectImageResponse image =
        images.get(launch.image().orElseThrow(), launch.neverFetched(), progress);
    List<Path> sources =
        mounts.bind(
            launch.folder().mounts(),
            launch.binds().stream()
                .map(bind -> new RunMounts.Folder(bind.source(), bind.readOnly()))
                .toList());
    CreateContainerCmd creation =
        new Recipe(settings.serverName, state, launcher, gpuAccess)
            .of(launch, image, sources, docker.createContainerCmd(image.getId()))
            .withName(name(launch.runId()));
    try {
      return created(engine.ordering(() -> creation.exec().getId()));
    } catch (ConflictException e) {
      // An earlier daemon has made it, or was killed while it asked for it.
      return created(find(launch.runId()).orElseThrow(DockerRuntime::removed).getId());
    } catch (DockerException e) {
      throw !EngineFault.isServers(e)
              && sources.stream()
                  .anyMatch(source -> EngineClient.text(e).contains(source.toString()))
          ? unseen(launch, e)
          : startFailed(e);
    }
  }

  private static Created created(String id) {
    return new Created(id, Optional.of(new Running(id, OptionalInt.empty(), true, List.of())));
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
    return engine.understood(() -> startContainer(launch));
  }

  private Running startContainer(Launch launch) throws InterruptedException {
    if (!launch.folder().started()) {
      try {
        engine.ordering(() -> docker.startContainerCmd(name(launch.runId())).exec());
        startedHere.add(launch.runId());
      } catch (NotModifiedException e) {
        // It runs already.
      } catch (DockerException e) {
        // An engine may start a container and fail the call. If not, it can be asked again.
        if (!launch.folder().started()) {
          if (find(launch.runId()).isEmpty()) {
            throw removed();
          }
          throw startFailed(e);
        }
      }
    }
    // The container has its own of them by now, and runs whatever becomes of ours.
    unbind(launch.folder());
    return running(launch);
  }

  private static BerthException removed() {
    return new BerthException(Reason.UNAVAILABLE, "somebody has removed its container");
  }

  private Running running(Launch launch) throws InterruptedException {
    String runId = launch.runId();
    Optional<InspectContainerResponse> found = find(runId);
    if (found.isEmpty() && launch.folder().started()) {
      // Who waits for its end is told that it is gone.
      return new Running("", OptionalInt.empty(), true, List.of());
    }
    InspectContainerResponse now = found.orElseThrow(DockerRuntime::removed);
    Long pid = now.getState().getPidLong();
    OptionalInt process =
        pid == null || pid == 0 ? OptionalInt.empty() : OptionalInt.of(pid.intValue());
    process.ifPresent(
        id -> ContainerGroup.peakFileOf(id).ifPresent(file -> peakFiles.put(runId, file)));
    return new Running(now.getId(), process, true, List.of());
  }

  @Override
  public Exit await(String runId) throws InterruptedException {
    boolean outage = false;
    while (true) {
      try (WaitContainerResultCallback callback = new WaitContainerResultCallback()) {
        if (outage) {
          // Each wait keeps a thread and a connection for as long as the engine hangs.
          engine.ask(() -> docker.inspectContainerCmd(name(runId)).exec());
        }
        // An engine that says nothing for long must at least say that the program runs.
        boolean over =
            docker
                .waitContainerCmd(name(runId))
                .exec(callback)
                .awaitCompletion(engine.silence().toMillis(), TimeUnit.MILLISECONDS);
        if (over && callback.awaitStatusCode() == 0 && !outage && startedHere.contains(runId)) {
          // Just now. Of what an earlier daemon started only the engine knows when.
          return new Exit(0, false, Optional.empty(), "");
        }
        InspectContainerResponse container =
            engine.ask(() -> docker.inspectContainerCmd(name(runId)).exec());
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
          log.warn("the Docker engine has gone while {} ran: {}", runId, EngineClient.text(e));
          outage = true;
        }
      }
      Thread.sleep(engine.retry().toMillis());
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
      at =
          Optional.ofNullable(state.getFinishedAt())
              .map(Instant::parse)
              .filter(i -> i.isAfter(Instant.EPOCH));
    } catch (DateTimeParseException e) {
      // The engine does not know.
    }
    return new Exit(code, Boolean.TRUE.equals(state.getOOMKilled()), at, "");
  }

  @Override
  public void signal(String runId, String signal) {
    signalled.add(runId);
    try {
      engine.ask(() -> docker.killContainerCmd(name(runId)).withSignal("SIG" + signal).exec());
    } catch (NotFoundException | ConflictException e) {
      // It has ended.
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
  }

  @Override
  public OptionalLong peakMemory(String runId) {
    Path file = peakFiles.get(runId);
    if (file == null) {
      lookAt(runId)
          .flatMap(DockerRuntime::processOf)
          .flatMap(ContainerGroup::peakFileOf)
          .ifPresent(found -> peakFiles.put(runId, found));
      return OptionalLong.empty();
    }
    return ContainerGroup.readPeak(file);
  }

  @Override
  public DiskShare diskShare(String runId) {
    Optional<InspectContainerResponse> found = lookAt(runId);
    Optional<Integer> process = found.flatMap(DockerRuntime::processOf);
    if (process.isEmpty()) {
      return new DiskShare(List.of(), 0);
    }
    List<Path> folders = new ArrayList<>();
    // What is the host's is not counted, with its name or without.
    List<String> ofHost = new ArrayList<>();
    for (InspectContainerResponse.Mount mount : mounts(found.get())) {
      boolean volume = mount.getName() != null && !mount.getName().isEmpty();
      if (volume && isPath(mount.getSource())) {
        folders.add(Path.of(mount.getSource()));
      } else if (!volume && mount.getDestination() != null) {
        ofHost.add(mount.getDestination().getPath() + "/");
      }
    }
    Optional<Path> layer = ContainerLayer.of(process.get());
    layer.ifPresent(folders::add);
    boolean measured = layer.isPresent() && folders.stream().allMatch(Files::isDirectory);
    if (!measured && lookAt(runId).flatMap(DockerRuntime::processOf).equals(process)) {
      warnOfUnmeasured(found.get().getDriver());
    }
    ofHost.remove(RunSpec.WORK + "/");
    return new DiskShare(
        List.copyOf(folders),
        UnlinkedFiles.bytes(
            ContainerGroup.processesWith(process.get()),
            name -> ofHost.stream().noneMatch(name::startsWith)));
  }

  private void warnOfUnmeasured(String driver) {
    if (unmeasuredWarned.compareAndSet(false, true)) {
      log.warn(
          "--work-limit does not count all that containers write: this berthd cannot measure or see"
              + " the layers and volumes of the engine (storage driver {})",
          driver);
    }
  }

  private static List<InspectContainerResponse.Mount> mounts(InspectContainerResponse container) {
    List<InspectContainerResponse.Mount> mounts = container.getMounts();
    return mounts == null ? List.of() : mounts.stream().filter(Objects::nonNull).toList();
  }

  // Empty if there is none, or the engine is away.
  private Optional<InspectContainerResponse> lookAt(String runId) {
    try {
      return Optional.of(engine.ask(() -> docker.inspectContainerCmd(name(runId)).exec()));
    } catch (RuntimeException e) {
      return Optional.empty();
    }
  }

  // Empty if it has ended.
  private static Optional<Integer> processOf(InspectContainerResponse container) {
    return Optional.ofNullable(container.getState())
        .map(InspectContainerResponse.ContainerState::getPidLong)
        .filter(pid -> pid > 0)
        .map(Long::intValue);
  }

  @Override
  public void remove(String runId) {
    remove(runId, true);
  }

  private void remove(String runId, boolean ofThisServer) {
    peakFiles.remove(runId);
    signalled.remove(runId);
    startedHere.remove(runId);
    try {
      engine.order(
          () ->
              docker
                  .removeContainerCmd(name(runId))
                  .withForce(true)
                  .withRemoveVolumes(true)
                  .exec());
    } catch (NotFoundException e) {
      // There is none.
    } catch (ConflictException e) {
      // Somebody else removes it in this moment.
      throw new BerthException(Reason.UNAVAILABLE, EngineClient.text(e), e);
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
    if (ofThisServer) {
      mounts.unbind(Runs.folder(settings.stateFolder, runId).mounts());
    }
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    if (!info.usable()) {
      return;
    }
    for (Container container : containersOfServers()) {
      Map<String, String> labels = container.getLabels() == null ? Map.of() : container.getLabels();
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
          remove(runId, owner.equals(state));
        } catch (BerthException e) {
          log.warn("cannot remove the container of {} now: {}", runId, e.getMessage());
        }
      }
    }
  }

  private List<Container> containersOfServers() {
    try {
      List<Container> found =
          engine.ask(
              () ->
                  docker
                      .listContainersCmd()
                      .withShowAll(true)
                      .withLabelFilter(List.of(Recipe.SERVER))
                      .exec());
      // The library makes nothing of a "null" where a list or a container should be.
      return found == null ? List.of() : found.stream().filter(Objects::nonNull).toList();
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
  }

  // The lock on its state folder tells whether a server lives.
  private boolean deadForLong(String otherState) {
    if (!isPath(otherState) || !OtherServer.isDead(Path.of(otherState))) {
      deadSince.remove(otherState);
      return false;
    }
    Instant since = deadSince.computeIfAbsent(otherState, key -> Instant.now());
    return Duration.between(since, Instant.now()).compareTo(settings.reapAfter) >= 0;
  }

  // Labels are whatever somebody wrote.
  private static boolean isPath(String text) {
    try {
      return text != null && Path.of(text).isAbsolute();
    } catch (InvalidPathException e) {
      return false;
    }
  }

  @Override
  public void close() {
    try {
      engine.close();
    } catch (IOException e) {
      log.warn("cannot close the connection to Docker: {}", e.getMessage());
    }
  }

  private Optional<InspectContainerResponse> find(String runId) throws InterruptedException {
    try {
      return Optional.of(engine.asking(() -> docker.inspectContainerCmd(name(runId)).exec()));
    } catch (NotFoundException e) {
      return Optional.empty();
    }
  }

  private BerthException unseen(Launch launch, Exception e) {
    return new BerthException(
        Reason.CONFLICT,
        "mount of "
            + launch.binds().get(0).source()
            + " asked, but the Docker engine does not see what this berthd mounts: berthd in a"
            + " container needs --pid host and --cap-add SYS_ADMIN, and its state folder under the"
            + " same path as on the host",
        e);
  }

  private static BerthException startFailed(DockerException e) {
    return new BerthException(
        EngineFault.isServers(e) ? Reason.UNAVAILABLE : Reason.CONFLICT,
        "the container cannot be started: " + EngineClient.text(e),
        e);
  }

  private static String name(String runId) {
    return "berth-" + runId;
  }
}
