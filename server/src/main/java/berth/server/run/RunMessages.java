package berth.server.run;

import static berth.server.run.RequestedRun.invalid;

import berth.rpc.Messages;
import berth.rpc.PlainText;
import berth.server.reservation.Reservation.Owner;
import berth.server.reservation.ReservationMessages;
import berth.server.run.RequestedRun.Code;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.v1.AttachRunRequest;
import berth.v1.ExitReason;
import berth.v1.OutputStream;
import berth.v1.Pulling;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunExited;
import berth.v1.RunStarted;
import berth.v1.RunState;
import berth.v1.RuntimeInfo;
import com.google.protobuf.ByteString;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/** Reads and writes the messages of {@code berth/v1/run.proto}. */
public final class RunMessages {
  // Of what people read in one line.
  private static final int LONGEST_TEXT = 200;
  private static final int LONGEST_IMAGE = 500;
  private static final int LONGEST_FILE_NAME = 255;
  private static final int SHOWN_COMMAND = 1000;

  private final String serverName;
  private final ReservationMessages reservations;

  public RunMessages(String serverName) {
    this.serverName = serverName;
    this.reservations = new ReservationMessages(serverName);
  }

  /**
   * What is kept of a request in memory, for lists and for those who wait: neither code nor files
   * nor variables, and of a long command the beginning.
   */
  static RunCodeRequest summary(RunCodeRequest request) {
    RunCodeRequest.Builder summary =
        request.toBuilder()
            .clearEnv()
            .clearEntrypoint()
            .clearWorkingDir()
            .clearUser()
            .clearNetwork()
            .clearMounts()
            .clearCommand()
            .clearFiles();
    if (request.hasSource()) {
      summary.getSourceBuilder().clearContent();
    }
    request.getFilesMap().keySet().forEach(name -> summary.putFiles(name, ByteString.EMPTY));
    int left = SHOWN_COMMAND;
    for (String word : request.getCommandList()) {
      if (word.length() > left) {
        summary.addCommand(word.substring(0, left) + "...");
        break;
      }
      summary.addCommand(word);
      left -= word.length() + 1;
      if (left < 0) {
        summary.addCommand("...");
        break;
      }
    }
    return summary.build();
  }

  /**
   * Where a caller wants to begin in the output of a run; empty if it wants none of it.
   *
   * @throws berth.rpc.BerthException INVALID if no output is that long
   */
  static OptionalLong offset(AttachRunRequest request) {
    if (request.getNoOutput()) {
      return OptionalLong.empty();
    }
    // Unsigned on the wire.
    if (request.getFromOffset() < 0) {
      throw invalid(
          "output from byte "
              + Long.toUnsignedString(request.getFromOffset())
              + " asked, the largest offset is "
              + Long.MAX_VALUE);
    }
    return OptionalLong.of(request.getFromOffset());
  }

  /**
   * Reads a request that comes from a caller.
   *
   * @throws berth.rpc.BerthException INVALID if it breaks a rule
   */
  static RequestedRun spec(RunCodeRequest request) {
    PlainText.check("the name", request.getName(), LONGEST_TEXT);
    PlainText.check("the request id", request.getRequestId(), LONGEST_TEXT);
    PlainText.check("the service", request.getService(), LONGEST_TEXT);
    PlainText.check("the image", request.getImage(), LONGEST_IMAGE);
    PlainText.check("the reservation", request.getReservationId(), LONGEST_TEXT);
    PlainText.check("the source file", request.getSource().getFileName(), LONGEST_FILE_NAME);
    PlainText.check("the bundle", request.getBundle(), LONGEST_TEXT);
    owner(request.getOwner());
    String workingDir = request.getWorkingDir();
    return new RequestedRun(
        request.hasService()
            ? Optional.of(named("a service", request.getService()))
            : Optional.empty(),
        request.hasImage() ? Optional.of(named("an image", request.getImage())) : Optional.empty(),
        code(request),
        files(request),
        request.getCommandList(),
        request.hasEntrypoint()
            ? Optional.of(request.getEntrypoint().getWordsList())
            : Optional.empty(),
        request.getEnvMap(),
        workingDir.isEmpty()
            ? RequestedRun.WORK
            : workingDir.startsWith("/") ? workingDir : RequestedRun.WORK + "/" + workingDir,
        request.getOutputsList(),
        request.hasGpus()
            ? Optional.of(ReservationMessages.wish(request.getGpus()))
            : Optional.empty(),
        request.hasReservationId()
            ? Optional.of(named("a reservation", request.getReservationId()))
            : Optional.empty(),
        request.getPortCount(),
        ReservationMessages.waitAtMost(request.getWait()),
        limits(request.getLimits()),
        request.hasUser()
            ? Optional.of(
                new RequestedRun.User(request.getUser().getUid(), request.getUser().getGid()))
            : Optional.empty(),
        switch (request.getNetwork()) {
          case NETWORK_UNSPECIFIED, NETWORK_OWN -> RequestedRun.Network.OWN;
          case NETWORK_HOST -> RequestedRun.Network.HOST;
          case NETWORK_NONE -> RequestedRun.Network.NONE;
          case UNRECOGNIZED -> throw invalid("unknown network");
        },
        mounts(request),
        request.getDetached(),
        new Owner(request.getOwner().getUser(), request.getOwner().getHost()),
        request.getName(),
        request.getRequestId());
  }

  static List<RequestedRun.Mount> mounts(RunCodeRequest request) {
    RequestedRun.checkMounts(request.getMountsCount());
    return request.getMountsList().stream()
        .map(
            mount ->
                new RequestedRun.Mount(
                    mount.getSource(),
                    mount.getTarget().isEmpty() ? mount.getSource() : mount.getTarget(),
                    mount.getReadOnly()))
        .toList();
  }

  static Owner owner(berth.v1.Owner owner) {
    return ReservationMessages.owner(owner);
  }

  private static Code code(RunCodeRequest request) {
    return switch (request.getCodeCase()) {
      case SOURCE ->
          new Code.Source(
              request.getSource().getFileName(),
              request.getSource().getContent().toByteArray(),
              request.getSource().getInterpreterList());
      case BUNDLE -> new Code.Bundle(request.getBundle());
      case CODE_NOT_SET -> new Code.None();
    };
  }

  private static Map<String, byte[]> files(RunCodeRequest request) {
    return request.getFilesMap().entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, file -> file.getValue().toByteArray()));
  }

  private static String named(String what, String name) {
    if (name.isEmpty()) {
      throw invalid(what + " without a name");
    }
    return name;
  }

  private static Limits limits(berth.v1.Limits limits) {
    return new Limits(
        limits.hasTime() ? Optional.of(Messages.duration(limits.getTime())) : Optional.empty(),
        limits.hasWarning()
            ? Optional.of(
                new Limits.Warning(
                    limits.getWarning().getSignal(),
                    Messages.duration(limits.getWarning().getBefore())))
            : Optional.empty(),
        limits.hasStopGrace() ? Messages.duration(limits.getStopGrace()) : Limits.DEFAULT_GRACE,
        limit(limits.getMemoryBytes()),
        limits.getCpus() == 0 ? OptionalDouble.empty() : OptionalDouble.of(limits.getCpus()),
        limit(limits.getProcesses()),
        limit(limits.getSharedMemoryBytes()),
        limits.hasIdle()
            ? Optional.of(
                new Limits.Idle(
                    limits.getIdle().getBelowPercent(),
                    Messages.duration(limits.getIdle().getTime())))
            : Optional.empty());
  }

  private static OptionalLong limit(long value) {
    return value == 0 ? OptionalLong.empty() : OptionalLong.of(value);
  }

  RunAccepted accepted(Run run) {
    return RunAccepted.newBuilder().setRunId(run.id()).setServer(serverName).build();
  }

  berth.v1.Reservation reservation(berth.server.reservation.Reservation reservation) {
    return reservations.reservation(reservation);
  }

  static Pulling pulling(RunEngine.Pull pull) {
    return Pulling.newBuilder()
        .setImage(pull.image())
        .setLayersDone(pull.layersDone())
        .setLayers(pull.layers())
        .setBytesDone(pull.bytesDone())
        .setBytes(pull.bytes())
        .setPercent(pull.bytes() == 0 ? 0 : (int) (pull.bytesDone() * 100 / pull.bytes()))
        .build();
  }

  RunStarted started(Started started) {
    return RunStarted.newBuilder()
        .setContainerId(started.containerId())
        .setHost(serverName)
        .setStartedAt(Messages.timestamp(started.at()))
        .setPid(started.pid().orElse(0))
        .setIsolated(started.isolated())
        .addAllNotEnforced(started.notEnforced())
        .build();
  }

  static OutputStream stream(OutputStreamKind stream) {
    return stream == OutputStreamKind.STDOUT
        ? OutputStream.OUTPUT_STREAM_STDOUT
        : OutputStream.OUTPUT_STREAM_STDERR;
  }

  static RunExited exited(Ended ended, String heldBack) {
    RunExited.Builder message =
        RunExited.newBuilder()
            .setExitCode(ended.exitCode())
            .setReason(
                switch (ended.reason()) {
                  case FINISHED -> ExitReason.EXIT_REASON_FINISHED;
                  case CANCELLED -> ExitReason.EXIT_REASON_CANCELLED;
                  case TIME_LIMIT -> ExitReason.EXIT_REASON_TIME_LIMIT;
                  case OUT_OF_MEMORY -> ExitReason.EXIT_REASON_OUT_OF_MEMORY;
                  case IMAGE_NOT_FOUND -> ExitReason.EXIT_REASON_IMAGE_NOT_FOUND;
                  case START_FAILED -> ExitReason.EXIT_REASON_START_FAILED;
                  case SERVER_LOST -> ExitReason.EXIT_REASON_SERVER_LOST;
                  case NOT_RESERVED -> ExitReason.EXIT_REASON_NOT_RESERVED;
                  case IDLE -> ExitReason.EXIT_REASON_IDLE;
                  case DISK_LIMIT -> ExitReason.EXIT_REASON_DISK_LIMIT;
                })
            .setMessage(ended.message())
            .setWallTime(Messages.duration(ended.wallTime()))
            .setGpuSeconds(ended.gpuSeconds())
            .setEndedAt(Messages.timestamp(ended.at()))
            .setOutputBytes(ended.outputBytes())
            .setHeldBack(heldBack);
    ended.peakMemory().ifPresent(message::setPeakMemoryBytes);
    return message.build();
  }

  /** The runs that have not ended, and the newest of the others; newest first. */
  public List<berth.v1.Run> recent(Runs runs, int mostEnded) {
    return runs.recent(mostEnded).stream().map(this::run).toList();
  }

  berth.v1.Run run(Run run) {
    Run.View view = run.view();
    RunRecord record = view.record();
    berth.v1.Run.Builder message =
        berth.v1.Run.newBuilder()
            .setRunId(run.id())
            .setServer(serverName)
            .setState(state(record.phase()))
            .setRequest(request(run.spec()))
            .setAcceptedAt(Messages.timestamp(record.accepted()))
            .setAhead(view.ahead().orElse(0))
            .setWaitingBecause(view.waitingBecause())
            .setOutputBytes(
                record
                    .ended()
                    .map(Ended::outputBytes)
                    .orElseGet(() -> run.liveOutput().map(Spool::total).orElse(0L)));
    view.reservation().ifPresent(held -> message.setReservation(reservation(held)));
    record.started().ifPresent(started -> message.setStarted(started(started)));
    record.ended().ifPresent(ended -> message.setExited(exited(ended, view.heldBack())));
    return message.build();
  }

  private static RunState state(Phase phase) {
    return switch (phase) {
      case QUEUED -> RunState.RUN_STATE_QUEUED;
      case PREPARING, LAUNCHING -> RunState.RUN_STATE_PREPARING;
      case RUNNING -> RunState.RUN_STATE_RUNNING;
      case ENDED, CLEANED -> RunState.RUN_STATE_ENDED;
    };
  }

  // What others may see: neither the code nor the values of variables, which may be secrets.
  private static RunCodeRequest request(RequestedRun spec) {
    RunCodeRequest.Builder message =
        RunCodeRequest.newBuilder()
            .addAllCommand(spec.command())
            .addAllOutputs(spec.outputs())
            .setDetached(spec.detached())
            .setOwner(
                berth.v1.Owner.newBuilder()
                    .setUser(spec.owner().user())
                    .setHost(spec.owner().host()))
            .setName(spec.name())
            .setRequestId(spec.requestId());
    spec.service().ifPresent(message::setService);
    spec.image().ifPresent(message::setImage);
    if (spec.code() instanceof Code.Source source) {
      message.setSource(
          berth.v1.Source.newBuilder()
              .setFileName(source.fileName())
              .setContent(ByteString.EMPTY)
              .addAllInterpreter(source.interpreter()));
    } else if (spec.code() instanceof Code.Bundle bundle) {
      message.setBundle(bundle.digest());
    }
    spec.files().keySet().forEach(name -> message.putFiles(name, ByteString.EMPTY));
    spec.gpus()
        .ifPresent(
            wish ->
                message.setGpus(
                    wish.ids().isEmpty()
                        ? berth.v1.GpuRequest.newBuilder().setCount(wish.count())
                        : berth.v1.GpuRequest.newBuilder()
                            .setExactly(berth.v1.GpuSet.newBuilder().addAllIds(wish.ids()))));
    spec.reservationId().ifPresent(message::setReservationId);
    return message.build();
  }

  /** What a registry is told of the services: their names and what they are. */
  public static List<berth.v1.Service> services(Services services) {
    return services.all().stream().map(RunMessages::service).toList();
  }

  static berth.v1.Service service(Service service) {
    berth.v1.Limits.Builder limits =
        berth.v1.Limits.newBuilder()
            .setMemoryBytes(service.memoryBytes().orElse(0))
            .setSharedMemoryBytes(service.sharedMemoryBytes().orElse(0))
            .setProcesses(service.processes().orElse(0))
            .setCpus(service.cpus().orElse(0));
    service.time().map(Messages::duration).ifPresent(limits::setTime);
    return berth.v1.Service.newBuilder()
        .setName(service.name())
        .addAllAliases(service.aliases())
        .setImage(service.image())
        .addAllInterpreter(service.interpreter())
        .setLimits(limits)
        .setDescription(PlainText.clean(service.description().strip().replaceAll("\\s+", " ")))
        .build();
  }

  static RuntimeInfo runtime(RunEngine.Info info) {
    return RuntimeInfo.newBuilder()
        .setName(info.name())
        .setEngine(info.engine())
        .setUsable(info.usable())
        .setGpuAccess(info.gpuAccess())
        .setToolkit(info.toolkit())
        .build();
  }
}
