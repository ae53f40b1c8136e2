package berth.client.cluster;

import berth.client.FollowedRun;
import berth.client.RunClient;
import berth.client.RunRequests;
import berth.client.ThisUser;
import berth.client.cluster.Hosts.Host;
import berth.client.cluster.TaskResult.End;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.v1.CancelRunRequest;
import berth.v1.Limits;
import berth.v1.OutputStream;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/**
 * One task of a cluster, from its request to its end, in a thread of its own; any other may stop
 * it.
 */
final class Task {
  /** The kernel takes no variable that is longer than 128 KiB. */
  private static final int LONGEST_VARIABLE = 100 << 10;

  private static final Duration CANCEL_TIMEOUT = Duration.ofSeconds(5);
  private static final Duration CANCEL_AGAIN = Duration.ofMillis(500);

  /** How far a task has come, for those who wonder why it has not started. */
  enum Stage {
    SENDING_FILES("its files are being sent"),
    ACCEPTED("its server prepares it"),
    PULLING("its image is being fetched"),
    RUNNING("it runs"),
    ENDED("it has ended");

    private final String words;

    Stage(String words) {
      this.words = words;
    }
  }

  private final TaskName name;
  private final ClusterRequest request;
  private final ClusterSpec spec;
  private final String server;
  private final Host host;
  private final Reservation reservation;
  private final RunRequests requests;
  private final BiConsumer<Task, ClusterEvent> events;

  private volatile Stage stage = Stage.SENDING_FILES;
  private volatile int percent;
  private String runId = "";
  private RunExited exited;
  private Thread thread;
  // Why it is to end, once somebody wants that.
  private Optional<End> stopped = Optional.empty();

  Task(
      TaskName name,
      ClusterRequest request,
      ClusterSpec spec,
      Gang gang,
      RunRequests requests,
      BiConsumer<Task, ClusterEvent> events) {
    this.name = name;
    this.request = request;
    this.spec = spec;
    this.server = gang.plan().servers().get(name).name();
    this.host = gang.host(name);
    this.reservation = gang.reservation(name);
    this.requests = requests;
    this.events = events;
  }

  TaskName name() {
    return name;
  }

  String server() {
    return server;
  }

  Stage stage() {
    return stage;
  }

  /** How far it has come, in words. */
  String progress() {
    return stage.words + (stage == Stage.PULLING ? ", " + percent + " %" : "");
  }

  /** Runs it, and returns when it has ended. */
  TaskResult run() {
    try {
      synchronized (this) {
        if (stopped.isPresent()) {
          return result(stopped.get(), OptionalInt.empty(), "it was stopped before its start");
        }
        thread = Thread.currentThread();
      }
      RunCodeRequest asked = prepared();
      synchronized (this) {
        // From here on its run is cancelled rather than this thread interrupted.
        thread = null;
        Thread.interrupted();
        if (stopped.isPresent()) {
          return result(stopped.get(), OptionalInt.empty(), "it was stopped before its start");
        }
      }
      new FollowedRun(host.runs(), this::take).run(asked);
      return result();
    } catch (BerthException | IOException e) {
      return failed(e.getMessage());
    } catch (RuntimeException | Error e) {
      // Nobody expects it, but the others must not wait for this one for ever.
      return failed(e.toString());
    } finally {
      synchronized (this) {
        thread = null;
        Thread.interrupted();
        stage = Stage.ENDED;
        notifyAll();
      }
    }
  }

  /**
   * Asks it to end, with {@code force} at once, and returns when its server has taken note. It is
   * told why only the first time. A server that does not answer is asked again until the task has
   * ended: it may be back before the task is given up.
   *
   * @throws BerthException if its server refuses
   * @throws InterruptedException if this thread is interrupted meanwhile
   */
  void stop(End why, boolean force) throws InterruptedException {
    CancelRunRequest.Builder asked =
        CancelRunRequest.newBuilder().setBy(ThisUser.owner()).setForce(force);
    synchronized (this) {
      stopped = stopped.or(() -> Optional.of(why));
      if (thread != null) {
        thread.interrupt();
      }
      while (runId.isEmpty() && stage != Stage.ENDED) {
        wait();
      }
      asked.setRunId(runId);
    }
    boolean told = false;
    while (stage != Stage.ENDED && !cancelled(asked.build(), told)) {
      told = true;
      pause();
    }
  }

  /** Returns false if the server does not answer. */
  private boolean cancelled(CancelRunRequest asked, boolean told) {
    try {
      host.runs().cancelRun(asked, CANCEL_TIMEOUT);
      return true;
    } catch (BerthException e) {
      return switch (e.reason()) {
        // One that has ended will say so.
        case CONFLICT, NOT_FOUND -> true;
        case UNAVAILABLE, TIMED_OUT -> {
          if (!told) {
            tell(new ClusterEvent.Note(name + " cannot be stopped yet: " + e.getMessage()));
          }
          yield false;
        }
        default -> throw e;
      };
    }
  }

  private synchronized void pause() throws InterruptedException {
    if (stage != Stage.ENDED) {
      TimeUnit.NANOSECONDS.timedWait(this, CANCEL_AGAIN.toNanos());
    }
  }

  private void tell(ClusterEvent event) {
    events.accept(this, event);
  }

  private RunCodeRequest prepared() throws IOException {
    RunClient client = host.runs();
    RunCodeRequest.Builder asked =
        requests
            .request()
            .setName(name + " of cluster " + request.name())
            .setOwner(ThisUser.owner())
            .setReservationId(reservation.getReservationId())
            .setRequestId(UUID.randomUUID().toString());
    Limits.Builder limits =
        asked.getLimitsBuilder().setStopGrace(Messages.duration(request.stopGrace()));
    request.timeLimit().ifPresent(limit -> limits.setTime(Messages.duration(limit)));
    addWhoIsWhere(asked);
    requests.complete(asked, client, host.services(), word -> spec.filled(word, name));
    return asked.build();
  }

  private void addWhoIsWhere(RunCodeRequest.Builder asked) {
    String tfConfig = spec.tfConfig(name);
    addVariable(asked, "TF_CONFIG", tfConfig);
    addVariable(asked, "CLUSTER_SPEC", spec.json());
    spec.ranks(name).forEach((key, value) -> addVariable(asked, key, value));
    Map<String, String> files =
        Map.of(
            ".cluster/tf_config.json", tfConfig,
            ".cluster/cluster.json", spec.json(),
            ".cluster/cluster.csv", spec.csv());
    files.forEach(
        (path, content) ->
            asked.putFiles(path, ByteString.copyFrom(content, StandardCharsets.UTF_8)));
  }

  // What the user says himself wins, and what is too long is in the files.
  private static void addVariable(RunCodeRequest.Builder asked, String key, String value) {
    if (!asked.containsEnv(key) && value.length() <= LONGEST_VARIABLE) {
      asked.putEnv(key, value);
    }
  }

  private void take(RunEvent event) {
    switch (event.getEventCase()) {
      case ACCEPTED -> accepted(event.getAccepted().getRunId());
      case PULLING -> {
        stage = Stage.PULLING;
        percent = event.getPulling().getPercent();
        tell(new ClusterEvent.Pulling(name, event.getPulling().getImage(), percent));
      }
      case STARTED -> {
        stage = Stage.RUNNING;
        event
            .getStarted()
            .getNotEnforcedList()
            .forEach(what -> tell(new ClusterEvent.Note(name + ": " + what)));
        tell(
            new ClusterEvent.Started(
                name,
                server,
                runId,
                reservation.getGpusList().stream().map(ReservedGpu::getIndex).toList()));
      }
      case OUTPUT ->
          tell(
              new ClusterEvent.Output(
                  name,
                  event.getOutput().getStream() == OutputStream.OUTPUT_STREAM_STDERR,
                  event.getOutput().getData().toByteArray()));
      case TRUNCATED ->
          tell(
              new ClusterEvent.Note(
                  "the output of " + name + " is longer than " + server + " keeps"));
      case EXITED -> exited = event.getExited();
      case QUEUED, RESERVED, EVENT_NOT_SET -> {}
    }
  }

  private synchronized void accepted(String run) {
    runId = run;
    stage = Stage.ACCEPTED;
    // Somebody may wait for it, to cancel it.
    notifyAll();
  }

  private TaskResult result() {
    OptionalInt code = OptionalInt.of(exited.getExitCode());
    return switch (exited.getReason()) {
      // A program may well end by itself in the moment in which it is stopped.
      case EXIT_REASON_FINISHED -> finished(code);
      case EXIT_REASON_CANCELLED ->
          result(stopped().orElse(End.CANCELLED), code, stopped().map(End::words).orElse(said()));
      case EXIT_REASON_TIME_LIMIT -> result(End.TIME_LIMIT, code, "its time was over");
      case EXIT_REASON_OUT_OF_MEMORY -> result(End.OUT_OF_MEMORY, code, said());
      case EXIT_REASON_SERVER_LOST -> result(End.SERVER_LOST, OptionalInt.empty(), said());
      case EXIT_REASON_IMAGE_NOT_FOUND,
          EXIT_REASON_START_FAILED,
          EXIT_REASON_NOT_RESERVED,
          EXIT_REASON_UNSPECIFIED,
          UNRECOGNIZED ->
          result(End.NOT_STARTED, OptionalInt.empty(), said());
    };
  }

  private TaskResult finished(OptionalInt code) {
    if (stopped().isPresent() && code.getAsInt() != 0) {
      return result(stopped().get(), code, stopped().get().words());
    }
    return result(End.FINISHED, code, code.getAsInt() == 0 ? "" : "exit code " + code.getAsInt());
  }

  private TaskResult failed(String why) {
    if (stopped().isPresent() && stage != Stage.RUNNING) {
      return result(stopped().get(), OptionalInt.empty(), stopped().get().words());
    }
    return stage == Stage.RUNNING
        ? result(End.SERVER_LOST, OptionalInt.empty(), why)
        : result(End.NOT_STARTED, OptionalInt.empty(), why);
  }

  private synchronized Optional<End> stopped() {
    return stopped;
  }

  private String said() {
    return exited.getMessage();
  }

  private TaskResult result(End end, OptionalInt code, String why) {
    return new TaskResult(
        name,
        server,
        runId,
        end,
        code,
        why,
        exited == null ? Duration.ZERO : Messages.duration(exited.getWallTime()));
  }
}
