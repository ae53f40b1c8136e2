package berth.client.cluster;

import berth.client.call.FollowedRun;
import berth.client.call.RunRequests;
import berth.client.cluster.Hosts.Host;
import berth.client.cluster.TaskResult.End;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.CancelRunRequest;
import berth.v1.Limits;
import berth.v1.OutputStream;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.TaskAttempt;
import berth.v1.WarningSignal;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * One start of a task, from its request to its end, in a thread of its own; any other may stop it.
 * What the ledger knows of it already is not done again.
 */
final class Task {
  /** The kernel takes no variable that is longer than 128 KiB. */
  private static final int LONGEST_VARIABLE = 100 << 10;

  private static final Duration CANCEL_TIMEOUT = Duration.ofSeconds(5);
  private static final Duration ASK_AGAIN = Duration.ofMillis(500);
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final Duration SHORTEST_TIME = Duration.ofSeconds(1);

  /** The variable that says how often a task was started before. */
  private static final String RESTART_COUNT = "RESTART_COUNT";

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
  private final GangReservation gang;
  private final ClusterSpec spec;
  private final Ledger ledger;
  private final TaskAttempt attempt;
  private final Host host;
  private final Reservation reservation;
  private final RunRequests requests;
  private final BiConsumer<Task, ClusterEvent> events;

  private volatile Stage stage = Stage.SENDING_FILES;
  private volatile int percent;
  private boolean heard;
  private String runId;
  private RunExited exited;
  private Thread thread;
  // Why it is to end, once somebody wants that.
  private Optional<End> stopped = Optional.empty();

  /**
   * The last start of a task that the ledger has.
   *
   * @param requests makes what is asked of the server
   */
  Task(
      TaskName name,
      ClusterRequest request,
      GangReservation gang,
      Ledger ledger,
      RunRequests requests,
      BiConsumer<Task, ClusterEvent> events) {
    this.name = name;
    this.request = request;
    this.gang = gang;
    this.spec = gang.spec();
    this.ledger = ledger;
    this.attempt = ledger.attempt(name);
    this.runId = attempt.getRunId();
    this.host = gang.host(name);
    this.reservation = gang.reservation(name);
    this.requests = requests;
    this.events = events;
  }

  TaskName name() {
    return name;
  }

  String server() {
    return attempt.getServer();
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
      if (runId.isEmpty()) {
        launch();
      }
      if (exited == null && !runId.isEmpty()) {
        follow();
      }
      return exited == null ? stoppedBeforeStart() : result();
    } catch (BerthException e) {
      return failed(e.reason(), e.getMessage());
    } catch (IOException e) {
      return failed(Reason.INVALID, e.getMessage());
    } catch (RuntimeException | Error e) {
      // Nobody expects it, but the others must not wait for this one for ever.
      return failed(Reason.INTERNAL, e.toString());
    } finally {
      synchronized (this) {
        thread = null;
        Thread.interrupted();
        stage = Stage.ENDED;
        notifyAll();
      }
    }
  }

  /** Has its server run it. Returns at its end, or, if it outlives its caller, when it is taken. */
  private void launch() throws IOException {
    synchronized (this) {
      if (stopped.isPresent()) {
        return;
      }
      thread = Thread.currentThread();
    }
    RunCodeRequest asked = prepared();
    synchronized (this) {
      // From here on its run is cancelled rather than this thread interrupted.
      thread = null;
      Thread.interrupted();
      if (stopped.isPresent()) {
        return;
      }
    }
    patiently(followed -> followed.run(asked));
  }

  private void follow() {
    patiently(
        followed ->
            followed.attach(
                AttachRunRequest.newBuilder()
                    .setRunId(runId)
                    .setHolding(!ledger.supervised())
                    .setNoOutput(ledger.supervised())
                    .build()));
  }

  /**
   * Calls a server that may be about to come back. A request that it has already is recognised by
   * its id.
   */
  private void patiently(Consumer<FollowedRun> call) {
    long firstTry = System.nanoTime();
    boolean told = false;
    while (true) {
      heard = false;
      try {
        call.accept(new FollowedRun(host.runs(), this::take));
        return;
      } catch (BerthException e) {
        boolean again =
            e.reason() == Reason.UNAVAILABLE
                && !heard
                && !(runId.isEmpty() && stopped().isPresent())
                && System.nanoTime() - firstTry < PATIENCE.toNanos();
        if (!again) {
          throw e;
        }
        if (!told && runId.isEmpty()) {
          told = true;
          tell(new ClusterEvent.Note(name + " cannot be started yet: " + e.getMessage()));
        }
      }
      host.reservations().connectNow();
      try {
        pause();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new BerthException(Reason.CANCELLED, "interrupted while starting " + name, e);
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
        CancelRunRequest.newBuilder().setBy(ledger.owner()).setForce(force);
    synchronized (this) {
      stopped = stopped.or(() -> Optional.of(why));
      if (thread != null) {
        thread.interrupt();
      }
      notifyAll();
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
      TimeUnit.NANOSECONDS.timedWait(this, ASK_AGAIN.toNanos());
    }
  }

  private void tell(ClusterEvent event) {
    events.accept(this, event);
  }

  private RunCodeRequest prepared() throws IOException {
    RunCodeRequest.Builder asked =
        requests
            .request()
            .setName(name + " of cluster " + request.name())
            .setOwner(ledger.owner())
            .setReservationId(reservation.getReservationId())
            .setDetached(ledger.supervised())
            .setRequestId(attempt.getRequestId());
    addLimits(asked.getLimitsBuilder());
    addWhoIsWhere(asked);
    addVariable(asked, RESTART_COUNT, Integer.toString(attempt.getNumber() - 1));
    requests.complete(asked, host.runs(), host.services(), word -> spec.filled(word, name));
    return asked.build();
  }

  // The server keeps to them also when nobody is there who watches.
  private void addLimits(Limits.Builder limits) {
    limits.setStopGrace(Messages.duration(request.stopGrace()));
    Optional<Duration> left = ledger.timeLeft().map(time -> longer(time, SHORTEST_TIME));
    left.ifPresent(time -> limits.setTime(Messages.duration(time)));
    request
        .warning(name)
        .filter(warning -> left.orElseThrow().compareTo(warning.before()) > 0)
        .ifPresent(
            warning ->
                limits.setWarning(
                    WarningSignal.newBuilder()
                        .setSignal(warning.signal())
                        .setBefore(Messages.duration(warning.before()))));
  }

  private static Duration longer(Duration a, Duration b) {
    return a.compareTo(b) > 0 ? a : b;
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
    heard = true;
    switch (event.getEventCase()) {
      case ACCEPTED -> accepted(event.getAccepted().getRunId());
      case PULLING -> {
        stage = Stage.PULLING;
        percent = event.getPulling().getPercent();
        tell(new ClusterEvent.Pulling(name, event.getPulling().getImage(), percent));
      }
      case STARTED -> {
        stage = Stage.RUNNING;
        ledger.started(name);
        event
            .getStarted()
            .getNotEnforcedList()
            .forEach(what -> tell(new ClusterEvent.Note(name + ": " + what)));
        tell(
            new ClusterEvent.Started(
                name,
                server(),
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
                  "the output of " + name + " is longer than " + server() + " keeps"));
      case EXITED -> exited = event.getExited();
      case QUEUED, RESERVED, EVENT_NOT_SET -> {}
    }
  }

  private void accepted(String run) {
    if (!run.equals(runId)) {
      ledger.accepted(name, run);
    }
    synchronized (this) {
      runId = run;
      stage = Stage.ACCEPTED;
      // Somebody may wait for it, to cancel it.
      notifyAll();
    }
  }

  private TaskResult result() {
    // One whose program never ran has none.
    OptionalInt code =
        stage == Stage.RUNNING ? OptionalInt.of(exited.getExitCode()) : OptionalInt.empty();
    return switch (exited.getReason()) {
      // A program may well end by itself in the moment in which it is stopped.
      case EXIT_REASON_FINISHED -> finished(exited.getExitCode());
      case EXIT_REASON_CANCELLED ->
          stopped().isEmpty() && !stillHeld()
              ? result(End.SERVER_LOST, OptionalInt.empty(), "what it held there is gone")
              : result(
                  stopped().orElse(End.CANCELLED), code, stopped().map(End::words).orElse(said()));
      case EXIT_REASON_TIME_LIMIT -> result(End.TIME_LIMIT, code, "its time was over");
      case EXIT_REASON_OUT_OF_MEMORY -> result(End.OUT_OF_MEMORY, code, said());
      case EXIT_REASON_IDLE -> result(End.IDLE, code, said());
      case EXIT_REASON_DISK_LIMIT -> result(End.CANCELLED, code, said());
      case EXIT_REASON_SERVER_LOST -> result(End.SERVER_LOST, OptionalInt.empty(), said());
      case EXIT_REASON_IMAGE_NOT_FOUND -> result(End.UNSTARTABLE, OptionalInt.empty(), said());
      case EXIT_REASON_START_FAILED,
          EXIT_REASON_NOT_RESERVED,
          EXIT_REASON_UNSPECIFIED,
          UNRECOGNIZED ->
          result(End.NOT_STARTED, OptionalInt.empty(), said());
    };
  }

  private TaskResult finished(int code) {
    if (stopped().isPresent() && code != 0) {
      return result(stopped().get(), OptionalInt.of(code), stopped().get().words());
    }
    String why =
        code == ExitCode.BERTH_FAILED && requests.installsPackages()
            ? "exit code " + code + ": pip could not install its packages, see its output"
            : code == 0 ? "" : "exit code " + code;
    return result(End.FINISHED, OptionalInt.of(code), why);
  }

  private TaskResult stoppedBeforeStart() {
    return result(
        stopped().orElse(End.CANCELLED), OptionalInt.empty(), "it was stopped before its start");
  }

  private TaskResult failed(Reason reason, String why) {
    if (stopped().isPresent() && stage != Stage.RUNNING) {
      return result(stopped().get(), OptionalInt.empty(), stopped().get().words());
    }
    if (stage == Stage.RUNNING || !attempt.getRunId().isEmpty()) {
      return result(End.SERVER_LOST, OptionalInt.empty(), why);
    }
    boolean forEver =
        switch (reason) {
          case INVALID, DENIED, UNAUTHENTICATED, UNSUPPORTED -> true;
          case NOT_FOUND -> stillHeld();
          default -> false;
        };
    return result(forEver ? End.UNSTARTABLE : End.NOT_STARTED, OptionalInt.empty(), why);
  }

  // One whose reservation has ended was not cancelled by anybody.
  private boolean stillHeld() {
    try {
      return gang.holds(name, Duration.ZERO);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return true;
    }
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
        server(),
        runId,
        end,
        code,
        why,
        exited == null ? ledger.ranFor(name) : Messages.duration(exited.getWallTime()),
        attempt.getNumber());
  }
}
