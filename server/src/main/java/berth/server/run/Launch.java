package berth.server.run;

import berth.host.lock.LockedGpu;
import berth.server.reservation.Reservation.Owner;
import berth.server.run.RequestedRun.Network;
import berth.server.run.RequestedRun.User;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What a runtime is to start: a run, after everything that can be decided about it is decided.
 *
 * @param neverFetched why the image may not be fetched if it is missing; empty if it may
 * @param entrypoint in place of the image's
 * @param env without what tells of the GPUs and the working folder, which differs between runtimes
 * @param ulimits by name, soft and hard; -1 for none
 * @param gpus reserved; none for a run that asked for none
 */
public record Launch(
    String runId,
    RunFolder folder,
    Optional<String> image,
    Optional<String> neverFetched,
    Optional<List<String>> entrypoint,
    List<String> command,
    Map<String, String> env,
    String workingDir,
    Optional<User> user,
    Network network,
    List<Bind> binds,
    Limits limits,
    Map<String, Long> ulimits,
    List<LockedGpu> gpus,
    Owner owner,
    String name) {

  /** A folder of this machine, its links resolved, that the program sees. */
  public record Bind(Path source, String target, boolean readOnly) {}
}
