package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.v1.Entrypoint;
import berth.v1.GpuRequest;
import berth.v1.Limits;
import berth.v1.ListServicesResponse;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import java.io.IOException;
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
            .setPortCount(spec.ports())
            .setLimits(limits())
            .setOwner(ThisUser.owner())
            .setName(spec.name());
    if (!spec.service().isEmpty()) {
      request.setService(spec.service());
    } else if (!spec.image().isEmpty()) {
      request.setImage(spec.image());
    }
    spec.entrypoint()
        .ifPresent(words -> request.setEntrypoint(Entrypoint.newBuilder().addAllWords(words)));
    if (spec.gpus() != 0) {
      request.setGpus(
          GpuRequest.newBuilder()
              .setCount(spec.gpus())
              .setMinFreeMemoryBytes(spec.minGpuMemoryBytes())
              .setModel(spec.gpuModel()));
    }
    if (spec.gpus() != 0 || spec.ports() > 0) {
      request.setWait(Messages.waitTime(spec.waitAtMost()));
    }
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

  private Limits limits() {
    Limits.Builder limits =
        Limits.newBuilder()
            .setMemoryBytes(spec.memoryBytes())
            .setCpus(spec.cpus())
            .setSharedMemoryBytes(spec.sharedMemoryBytes());
    spec.timeLimit().ifPresent(time -> limits.setTime(Messages.duration(time)));
    spec.idle()
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
