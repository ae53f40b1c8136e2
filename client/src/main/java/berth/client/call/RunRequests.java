package berth.client.call;

import berth.client.spec.GpuChoice;
import berth.client.spec.RunLimits;
import berth.client.spec.RunSpec;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.v1.Entrypoint;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Limits;
import berth.v1.ListServicesResponse;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.UserId;
import berth.v1.WarningSignal;
import java.io.IOException;
import java.util.Optional;
import java.util.function.UnaryOperator;

/**
 * Makes requests of a {@link RunSpec}, for any number of runs on any number of servers. Any thread
 * may call. What it has packed is forgotten when it is closed.
 */
public final class RunRequests implements AutoCloseable {
  private final RunSpec spec;
  private final ProgramDelivery program;

  public RunRequests(RunSpec spec) {
    this.spec = spec;
    this.program = new ProgramDelivery(spec.program(), spec.pip());
  }

  /** Whether packages of Python are installed before the program starts. */
  public boolean installsPackages() {
    return !spec.pip().isEmpty();
  }

  /** All that is the same for every server: a request without code and command. */
  public RunCodeRequest.Builder request() {
    RunCodeRequest.Builder request =
        RunCodeRequest.newBuilder()
            .putAllEnv(spec.env())
            .setPortCount(spec.resources().ports())
            .setLimits(limits(spec.limits()))
            .setOwner(ThisUser.owner())
            .setName(spec.name());
    if (!spec.service().isEmpty()) {
      request.setService(spec.service());
    } else if (!spec.image().isEmpty()) {
      request.setImage(spec.image());
    }
    spec.entrypoint()
        .ifPresent(words -> request.setEntrypoint(Entrypoint.newBuilder().addAllWords(words)));
    gpus(spec.resources().gpus()).ifPresent(request::setGpus);
    if (!spec.resources().isNone()) {
      request.setWait(Messages.waitTime(spec.resources().waitAtMost()));
    }
    spec.user()
        .ifPresent(
            user -> request.setUser(UserId.newBuilder().setUid(user.uid()).setGid(user.gid())));
    if (spec.hostNetwork()) {
      request.setNetwork(Network.NETWORK_HOST);
    }
    for (RunSpec.Mount mount : spec.mounts()) {
      request.addMounts(
          Mount.newBuilder()
              .setSource(mount.source())
              .setTarget(mount.target())
              .setReadOnly(mount.readOnly()));
    }
    return request;
  }

  /** The GPUs as servers and registries are asked for them; empty if none are. */
  public static Optional<GpuRequest> gpus(GpuChoice wanted) {
    if (wanted.isNone()) {
      return Optional.empty();
    }
    GpuRequest.Builder request =
        GpuRequest.newBuilder()
            .setMinFreeMemoryBytes(wanted.minFreeMemoryBytes())
            .setModel(wanted.model());
    if (wanted.exactly().isEmpty()) {
      request.setCount(wanted.count());
    } else {
      request.setExactly(GpuSet.newBuilder().addAllIds(wanted.exactly()));
    }
    return Optional.of(request.build());
  }

  private static Limits limits(RunLimits allowed) {
    Limits.Builder limits =
        Limits.newBuilder()
            .setMemoryBytes(allowed.memoryBytes())
            .setCpus(allowed.cpus())
            .setProcesses(allowed.processes())
            .setSharedMemoryBytes(allowed.sharedMemoryBytes());
    allowed.time().ifPresent(time -> limits.setTime(Messages.duration(time)));
    allowed
        .warning()
        .ifPresent(
            warning ->
                limits.setWarning(
                    WarningSignal.newBuilder()
                        .setSignal(warning.signal())
                        .setBefore(Messages.duration(warning.before()))));
    allowed.stopGrace().ifPresent(grace -> limits.setStopGrace(Messages.duration(grace)));
    allowed
        .idle()
        .ifPresent(
            idle ->
                limits.setIdle(
                    berth.v1.IdleLimit.newBuilder()
                        .setBelowPercent(idle.belowPercent())
                        .setTime(Messages.duration(idle.time()))));
    return limits.build();
  }

  /**
   * Adds what depends on the server: code and command, and the files, which are uploaded if the
   * server lacks them. Those who do so for the same server at the same time share one upload.
   *
   * @param request one of {@link #request}
   * @param services what this server has
   * @param words changes each word of the command, or of the arguments of the script
   * @throws IOException if a file cannot be read
   * @throws BerthException if the program is none, or the upload fails
   */
  public void complete(
      RunCodeRequest.Builder request,
      RunClient client,
      ListServicesResponse services,
      UnaryOperator<String> words)
      throws IOException {
    program.complete(request, client, () -> services, words);
  }

  @Override
  public void close() {
    program.close();
  }
}
