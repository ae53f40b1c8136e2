package berth.server.run.docker;

import berth.server.run.RequestedRun;
import berth.server.run.RunEngine.DiskShare;
import berth.server.run.UnlinkedFiles;
import com.github.dockerjava.api.command.InspectContainerResponse;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What containers take of this machine's disk: their layers, their volumes, and files that are
 * deleted but open. Any thread may call.
 */
final class ContainerDisk {
  private static final Logger log = LoggerFactory.getLogger(ContainerDisk.class);

  private final RunContainers containers;
  private final AtomicBoolean unmeasuredWarned = new AtomicBoolean();

  ContainerDisk(RunContainers containers) {
    this.containers = containers;
  }

  /** Nothing if it has ended, or the engine is away. */
  DiskShare of(String runId) {
    InspectContainerResponse container;
    try {
      container = containers.inspect(runId);
    } catch (RuntimeException e) {
      return new DiskShare(List.of(), 0);
    }
    Optional<Integer> process = RunContainers.processOf(container);
    if (process.isEmpty()) {
      return new DiskShare(List.of(), 0);
    }
    List<Path> folders = new ArrayList<>();
    // What is the host's is not counted, with its name or without.
    List<String> ofHost = new ArrayList<>();
    for (InspectContainerResponse.Mount mount : mounts(container)) {
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
    if (!measured && containers.processOf(runId).equals(process)) {
      warnOfUnmeasured(container.getDriver());
    }
    ofHost.remove(RequestedRun.WORK + "/");
    return new DiskShare(
        List.copyOf(folders),
        UnlinkedFiles.bytes(
            ContainerGroup.processesWith(process.get()),
            name -> ofHost.stream().noneMatch(name::startsWith)));
  }

  private void warnOfUnmeasured(String driver) {
    if (unmeasuredWarned.compareAndSet(false, true)) {
      log.warn(
          "--work-limit is incomplete: berthd cannot measure the layers and volumes of containers"
              + " (storage driver {})",
          driver);
    }
  }

  private static List<InspectContainerResponse.Mount> mounts(InspectContainerResponse container) {
    List<InspectContainerResponse.Mount> mounts = container.getMounts();
    return mounts == null ? List.of() : mounts.stream().filter(Objects::nonNull).toList();
  }

  private static boolean isPath(String text) {
    try {
      return text != null && Path.of(text).isAbsolute();
    } catch (InvalidPathException e) {
      return false;
    }
  }
}
