package berth.server.run.docker;

import berth.host.lock.LockedGpu;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.GpuVariables;
import berth.server.run.Launch;
import berth.server.run.RequestedRun;
import com.github.dockerjava.api.command.CreateContainerCmd;
import com.github.dockerjava.api.command.InspectImageResponse;
import com.github.dockerjava.api.model.Capability;
import com.github.dockerjava.api.model.ContainerConfig;
import com.github.dockerjava.api.model.DeviceRequest;
import com.github.dockerjava.api.model.HostConfig;
import com.github.dockerjava.api.model.LogConfig;
import com.github.dockerjava.api.model.Mount;
import com.github.dockerjava.api.model.MountType;
import com.github.dockerjava.api.model.Ulimit;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a run's container is made of: its command, what it sees, what it may do, and whose it is.
 *
 * @param state the state folder of the server, by which its containers are told from those of
 *     others
 */
record Recipe(String serverName, String state, Launcher launcher, GpuAccess gpuAccess) {
  static final String RUN = "berth.run";
  static final String SERVER = "berth.server";
  static final String STATE = "berth.state";
  static final String GPUS = "berth.gpus";
  static final String OWNER = "berth.owner";

  private static final long MOST_PROCESSES = 16384;

  /**
   * Fills in the creation of a run's container; its name is the caller's affair.
   *
   * @param sources where the engine finds the folders of the run's binds, in their order
   */
  CreateContainerCmd of(
      Launch launch, InspectImageResponse image, List<Path> sources, CreateContainerCmd creation) {
    List<String> entrypoint = new ArrayList<>(launcher.entrypoint());
    entrypoint.addAll(words(launch, image));
    Map<String, String> env = new LinkedHashMap<>(launch.env());
    env.put(RequestedRun.WORK_VARIABLE, RequestedRun.WORK);
    env.putAll(GpuVariables.inContainer(launch.gpus()));
    HostConfig host = hostConfig(launch, sources);
    if (!launch.gpus().isEmpty()) {
      addGpus(launch.gpus(), host, env);
    }
    Map<String, String> labels = new LinkedHashMap<>();
    labels.put(RUN, launch.runId());
    labels.put(SERVER, serverName);
    labels.put(STATE, state);
    labels.put(GPUS, GpuVariables.indices(launch.gpus()));
    labels.put(OWNER, launch.owner().toString());
    creation
        .withLabels(labels)
        .withEntrypoint(entrypoint)
        .withCmd(List.of())
        .withEnv(env.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).toList())
        .withWorkingDir(launch.workingDir())
        .withAttachStdout(false)
        .withAttachStderr(false)
        .withHostConfig(host);
    // The host's network brings the host's name.
    if (launch.network() != RequestedRun.Network.HOST) {
      creation.withHostName(launch.runId());
    }
    launch.user().ifPresent(user -> creation.withUser(user.uid() + ":" + user.gid()));
    return creation;
  }

  private HostConfig hostConfig(Launch launch, List<Path> sources) {
    List<Mount> mounts = new ArrayList<>();
    // A pipe can be written to on a mount that is read-only, but not replaced by something else.
    mounts.add(mount(launch.folder().io(), Launcher.IO, true));
    mounts.add(mount(launch.folder().mark(), Launcher.MARK, false));
    mounts.add(mount(launch.folder().work(), RequestedRun.WORK, false));
    launcher.busybox().ifPresent(path -> mounts.add(mount(path, Launcher.BUSYBOX, true)));
    for (int i = 0; i < sources.size(); i++) {
      Launch.Bind bind = launch.binds().get(i);
      mounts.add(mount(sources.get(i), bind.target(), bind.readOnly()));
    }
    HostConfig host =
        HostConfig.newHostConfig()
            .withInit(true)
            .withNetworkMode(
                switch (launch.network()) {
                  case OWN -> "bridge";
                  case HOST -> "host";
                  case NONE -> "none";
                })
            .withSecurityOpts(List.of("no-new-privileges"))
            .withCapDrop(Capability.ALL)
            .withPidsLimit(launch.limits().processes().orElse(MOST_PROCESSES))
            .withMounts(mounts)
            // The output goes by the run's own pipes.
            .withLogConfig(new LogConfig(LogConfig.LoggingType.NONE))
            .withUlimits(
                launch.ulimits().entrySet().stream()
                    .map(e -> new Ulimit(e.getKey(), e.getValue(), e.getValue()))
                    .toList());
    launch.limits().memory().ifPresent(bytes -> host.withMemory(bytes).withMemorySwap(bytes));
    launch.limits().cpus().ifPresent(cpus -> host.withNanoCPUs((long) (cpus * 1e9)));
    launch.limits().sharedMemory().ifPresent(host::withShmSize);
    return host;
  }

  // Never as text, in which a path could say more than a path.
  private static Mount mount(Path source, String target, boolean readOnly) {
    return new Mount()
        .withType(MountType.BIND)
        .withSource(source.toString())
        .withTarget(target)
        .withReadOnly(readOnly);
  }

  private void addGpus(List<LockedGpu> gpus, HostConfig host, Map<String, String> env) {
    List<String> uuids = gpus.stream().map(LockedGpu::uuid).toList();
    switch (gpuAccess) {
      case DEVICE_REQUESTS ->
          host.withDeviceRequests(
              List.of(
                  new DeviceRequest()
                      .withDriver("nvidia")
                      .withDeviceIds(uuids)
                      .withCapabilities(List.of(List.of("gpu", "compute", "utility")))));
      case NVIDIA_RUNTIME -> {
        host.withRuntime("nvidia");
        env.put("NVIDIA_VISIBLE_DEVICES", String.join(",", uuids));
        env.put("NVIDIA_DRIVER_CAPABILITIES", "compute,utility");
      }
      case CDI ->
          host.withDeviceRequests(
              List.of(
                  new DeviceRequest()
                      .withDriver("cdi")
                      .withDeviceIds(
                          uuids.stream().map(uuid -> "nvidia.com/gpu=" + uuid).toList())));
      case SIMULATED -> env.put("NVIDIA_VISIBLE_DEVICES", "void");
      case NONE -> throw new AssertionError("refused before");
    }
  }

  private static List<String> words(Launch launch, InspectImageResponse image) {
    ContainerConfig config = image.getConfig();
    List<String> words = new ArrayList<>();
    if (launch.entrypoint().isPresent()) {
      words.addAll(launch.entrypoint().get());
    } else if (config != null && config.getEntrypoint() != null) {
      words.addAll(List.of(config.getEntrypoint()));
    }
    if (!launch.command().isEmpty()) {
      words.addAll(launch.command());
    } else if (launch.entrypoint().isEmpty() && config != null && config.getCmd() != null) {
      words.addAll(List.of(config.getCmd()));
    }
    if (words.isEmpty()) {
      throw new BerthException(
          Reason.INVALID, launch.image().orElseThrow() + " has no command of its own; name one");
    }
    return words;
  }
}
