package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.Launch;
import berth.server.run.RunEngine;
import berth.server.run.RunFolder;
import berth.server.run.Runs;
import berth.server.run.mount.RunMounts;
import com.github.dockerjava.api.DockerClient;
import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.command.InspectImageResponse;
import com.github.dockerjava.api.exception.ConflictException;
import com.github.dockerjava.api.exception.DockerException;
import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.exception.NotModifiedException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs in containers of a Docker engine. A run's container has a name made of the run's id, so it
 * is found again, and labels that say whose it is.
 */
public final class DockerRuntime implements RunEngine {
  private static final Logger log = LoggerFactory.getLogger(DockerRuntime.class);

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
  private final RunContainers containers;
  private final OutOfMemoryKills kills = new OutOfMemoryKills();
  private final ContainerExit exits;
  private final ContainerDisk disk;
  private final ContainerReaper reaper;
  private final EngineHost host;
  private final Images images;
  private final RunMounts mounts;
  private final Launcher launcher = Launcher.ofThisMachine();
  private final Map<String, ContainerGroup> groups = new ConcurrentHashMap<>();
  private volatile RunEngine.Info info;
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
    containers = new RunContainers(engine);
    exits = new ContainerExit(engine, kills);
    disk = new ContainerDisk(containers);
    reaper = new ContainerReaper(engine, state, settings.reapAfter);
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
      log.warn("cannot look for leftover mounts of an earlier berthd: {}", e.getMessage());
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
  public RunEngine.Info info() {
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

  private RunEngine.Info ask() {
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
      return new RunEngine.Info(
          "docker",
          "Docker " + said.getServerVersion() + " at " + settings.host,
          true,
          gpuAccess.description(),
          toolkit.map(NvidiaToolkit::description).orElse(""),
          List.copyOf(folders));
    } catch (RuntimeException e) {
      return new RunEngine.Info(
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
      throw new BerthException(
          Reason.INVALID, "no service or image given: use --service NAME or --image IMAGE");
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
      // What an engine can do that was away when this process came is not known yet.
      problem()
          .ifPresent(
              why -> {
                throw new BerthException(Reason.UNAVAILABLE, why);
              });
    }
    if (!launch.gpus().isEmpty() && gpuAccess == GpuAccess.NONE) {
      throw new BerthException(
          Reason.CONFLICT, "containers cannot access GPUs: " + gpuAccess.description());
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
            .withName(RunContainers.name(launch.runId()));
    try {
      return created(engine.ordering(() -> creation.exec().getId()));
    } catch (ConflictException e) {
      // An earlier daemon has made it, or was killed while it asked for it.
      return created(containers.find(launch.runId()).orElseThrow(DockerRuntime::removed).getId());
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
        kills.starts(launch.runId());
        engine.ordering(() -> docker.startContainerCmd(RunContainers.name(launch.runId())).exec());
        exits.startedHere(launch.runId());
      } catch (NotModifiedException e) {
        // It runs already.
      } catch (DockerException e) {
        // An engine may start a container and fail the call. If not, it can be asked again.
        if (!launch.folder().started()) {
          if (containers.find(launch.runId()).isEmpty()) {
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
    return new BerthException(Reason.UNAVAILABLE, ContainerExit.REMOVED);
  }

  private Running running(Launch launch) throws InterruptedException {
    String runId = launch.runId();
    Optional<InspectContainerResponse> found = containers.find(runId);
    if (found.isEmpty() && launch.folder().started()) {
      // Who waits for its end is told that it is gone.
      return new Running("", OptionalInt.empty(), true, List.of());
    }
    InspectContainerResponse now = found.orElseThrow(DockerRuntime::removed);
    Long pid = now.getState().getPidLong();
    OptionalInt process =
        pid == null || pid == 0 ? OptionalInt.empty() : OptionalInt.of(pid.intValue());
    process.ifPresent(id -> ContainerGroup.of(id).ifPresent(group -> groups.put(runId, group)));
    return new Running(now.getId(), process, true, List.of());
  }

  @Override
  public Exit await(String runId) throws InterruptedException {
    return exits.await(runId);
  }

  @Override
  public void signal(String runId, String signal) {
    exits.signalled(runId);
    try {
      engine.ask(
          () ->
              docker.killContainerCmd(RunContainers.name(runId)).withSignal("SIG" + signal).exec());
    } catch (NotFoundException | ConflictException e) {
      // It has ended.
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
  }

  @Override
  public OptionalLong peakMemory(String runId) {
    ContainerGroup group = groups.get(runId);
    if (group == null) {
      containers
          .processOf(runId)
          .flatMap(ContainerGroup::of)
          .ifPresent(found -> groups.put(runId, found));
      return OptionalLong.empty();
    }
    kills.look(runId, group);
    return group.peakMemory();
  }

  @Override
  public DiskShare diskShare(String runId) {
    return disk.of(runId);
  }

  @Override
  public void remove(String runId) {
    groups.remove(runId);
    exits.forget(runId);
    kills.forget(runId);
    containers.remove(runId);
    mounts.unbind(Runs.folder(settings.stateFolder, runId).mounts());
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    if (info.usable()) {
      reaper.reap(knownRun, this::remove);
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

  private BerthException unseen(Launch launch, Exception e) {
    return new BerthException(
        Reason.CONFLICT,
        "mount of "
            + launch.binds().get(0).source()
            + " asked, but the Docker engine cannot see the mounts of berthd: berthd in a container"
            + " needs --pid host, --cap-add SYS_ADMIN, and its state folder under the same path as"
            + " on the host",
        e);
  }

  private static BerthException startFailed(DockerException e) {
    return new BerthException(
        EngineFault.isServers(e) ? Reason.UNAVAILABLE : Reason.CONFLICT,
        "cannot start the container: " + EngineClient.text(e),
        e);
  }
}
