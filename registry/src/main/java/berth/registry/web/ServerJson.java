package berth.registry.web;

import berth.v1.ClusterNote;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.Gpu;
import berth.v1.GpuHealth;
import berth.v1.GpuHealthState;
import berth.v1.GpuHistory;
import berth.v1.GpuInfo;
import berth.v1.GpuProcess;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.LockHolder;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import berth.v1.UnreservedUse;
import berth.v1.Waiting;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The JSON that the page gets of a server, its runs and its clusters. */
final class ServerJson {
  private static final Pattern OF_CLUSTER = Pattern.compile("\\S+ of cluster (\\S+)");
  private static final int LONGEST_PROGRAM = 300;
  private static final int FEW_NOTES = 5;
  private static final int MEBIBYTE = 20;

  private ServerJson() {}

  /** All of a server but what changes with every sample. */
  static String server(ServerView view) {
    return PageJson.object(
        json -> {
          ServerInfo info = view.server().getInfo();
          ServerStatus status = view.server().getStatus();
          json.put("name", info.getName())
              .put("address", info.getAddress())
              .put("version", info.getVersion())
              .put("runtime", info.getRuntime())
              .putObject(
                  "labels",
                  labels -> {
                    for (Map.Entry<String, String> label : info.getLabelsMap().entrySet()) {
                      labels.put(label.getKey(), label.getValue());
                    }
                  })
              .put("cpus", info.getCpus())
              .put("memoryTotalBytes", info.getMemoryBytes())
              .put("memoryFreeBytes", status.getFreeMemoryBytes())
              .put("state", view.state().name().toLowerCase(Locale.ROOT))
              .put("since", view.since())
              .put("why", view.why())
              .put("draining", status.getDraining())
              .put("canRun", status.getCanRun())
              .put("problem", status.getProblem())
              .put("simulated", info.getSimulated())
              .put("driver", view.report().getDriverVersion())
              .put("cuda", view.report().getCudaVersion())
              .put("registered", true, view.server().getRegisteredAt())
              .putTexts("services", info.getServicesList().stream().map(Service::getName).toList())
              .putArray("gpus", array -> addGpus(array, view))
              .putArray(
                  "queue",
                  array -> {
                    for (Waiting waiting : view.reservations().getWaitingList()) {
                      array.add(
                          one ->
                              one.put("user", waiting.getOwner().getUser())
                                  .put("host", waiting.getOwner().getHost())
                                  .put("purpose", waiting.getPurpose())
                                  .put("gpus", waiting.getGpuCount())
                                  .put("waitingBecause", waiting.getWaitingBecause())
                                  .put("since", true, waiting.getSince()));
                    }
                  })
              .put("runCount", status.getRunCount())
              .putArray(
                  "runs",
                  array -> {
                    for (Run run : view.runs().getRunsList()) {
                      array.add(one -> putRun(one, run));
                    }
                  })
              .putArray(
                  "clusters",
                  array -> {
                    List<ClusterStatus> clusters = view.clusters().getClustersList();
                    for (int i = clusters.size() - 1; i >= 0; i--) {
                      ClusterStatus cluster = clusters.get(i);
                      array.add(one -> putCluster(one, cluster, FEW_NOTES));
                    }
                  });
        });
  }

  /**
   * The newest sample: an array of utilisation, memory, temperature and power for each GPU that
   * {@link #server} has, in the same order.
   */
  static void putSample(PageJson json, ServerView view) throws IOException {
    Map<String, Gpu> seen = seen(view);
    json.putArray(
        view.name(),
        gpus -> {
          for (GpuInfo info : view.server().getInfo().getGpusList()) {
            Gpu gpu = answering(seen.getOrDefault(info.getUuid(), Gpu.getDefaultInstance()));
            gpus.addArray(
                values ->
                    values
                        .add(gpu.hasGpuUtilizationPercent(), gpu.getGpuUtilizationPercent())
                        .add(gpu.hasMemory(), gpu.getMemory().getUsedBytes() >> MEBIBYTE)
                        .add(gpu.hasTemperatureCelsius(), gpu.getTemperatureCelsius())
                        .add(
                            gpu.hasPowerMilliwatts(),
                            Math.round(gpu.getPowerMilliwatts() / 1000.0)));
          }
        });
  }

  // Of one that does not answer there are only old values.
  private static Gpu answering(Gpu gpu) {
    GpuHealthState health = gpu.getHealth().getState();
    return health == GpuHealthState.GPU_HEALTH_STATE_UNKNOWN
            || health == GpuHealthState.GPU_HEALTH_STATE_LOST
        ? Gpu.getDefaultInstance()
        : gpu;
  }

  /** Whether the page would show the same of two states, but for the sample. */
  static boolean looksTheSame(ServerView one, ServerView other) {
    return (one.server() == other.server() || told(one).equals(told(other)))
        && one.state() == other.state()
        && one.why().equals(other.why())
        && one.reservations() == other.reservations()
        && one.runs() == other.runs()
        && one.clusters() == other.clusters()
        && (one.report() == other.report()
            || fixed(one).equals(fixed(other)) && strangers(one).equals(strangers(other)));
  }

  // What the server told the registry; the sample has its memory.
  private static List<Object> told(ServerView view) {
    ServerStatus.Builder status = view.server().getStatus().toBuilder();
    status.getGpusBuilderList().forEach(GpuStatus.Builder::clearFreeMemoryBytes);
    return List.of(view.server().getInfo(), status.build(), view.server().getRegisteredAt());
  }

  // What a report says beyond the sample.
  private static List<Object> fixed(ServerView view) {
    return List.of(
        view.report().getDriverVersion(),
        view.report().getCudaVersion(),
        view.report().getGpusList().stream()
            .map(gpu -> List.of(gpu.getHealth(), gpu.getPowerLimitMilliwatts()))
            .toList());
  }

  private static Map<Integer, List<Long>> strangers(ServerView view) {
    Map<Integer, List<Long>> strangers = new HashMap<>();
    Map<String, Gpu> seen = seen(view);
    for (UnreservedUse use : view.reservations().getUnreservedUseList()) {
      strangers.put(
          use.getIndex(),
          seen
              .getOrDefault(use.getUuid(), Gpu.getDefaultInstance())
              .getProcesses()
              .getProcessesList()
              .stream()
              .map(process -> (long) process.getPid())
              .toList());
    }
    return strangers;
  }

  private static Map<String, Gpu> seen(ServerView view) {
    Map<String, Gpu> seen = new HashMap<>();
    view.report().getGpusList().forEach(gpu -> seen.put(gpu.getUuid(), gpu));
    return seen;
  }

  private static void addGpus(PageJson array, ServerView view) throws IOException {
    Map<String, Gpu> seen = seen(view);
    Map<Integer, GpuStatus> statuses = new HashMap<>();
    view.server()
        .getStatus()
        .getGpusList()
        .forEach(status -> statuses.put(status.getIndex(), status));
    Map<String, Reservation> holders = new HashMap<>();
    for (Reservation reservation : view.reservations().getReservationsList()) {
      for (ReservedGpu gpu : reservation.getGpusList()) {
        holders.put(gpu.getUuid(), reservation);
      }
    }
    for (GpuInfo info : view.server().getInfo().getGpusList()) {
      GpuStatus status = statuses.getOrDefault(info.getIndex(), GpuStatus.getDefaultInstance());
      Gpu gpu = seen.getOrDefault(info.getUuid(), Gpu.getDefaultInstance());
      Reservation holder = holders.get(info.getUuid());
      array.add(
          one -> {
            one.put("index", info.getIndex())
                .put("uuid", info.getUuid())
                .put("model", info.getModel())
                .put("memoryTotal", info.getMemoryBytes() > 0, info.getMemoryBytes() >> MEBIBYTE)
                .put(
                    "powerLimit",
                    gpu.hasPowerLimitMilliwatts(),
                    Math.round(gpu.getPowerLimitMilliwatts() / 1000.0))
                .put("state", state(status.getState(), holder != null))
                .put("health", health(gpu, status))
                .put("healthReason", reason(gpu, status))
                .put("healthAdvice", gpu.getHealth().getAdvice());
            putHolder(one, holder);
            one.putArray("strangers", strangers -> addStrangers(strangers, view, gpu))
                .put("lockedBy", lockedBy(view, info.getUuid()));
          });
    }
  }

  // What the server told the registry is newer by a moment, or older; who has it has it.
  private static String state(GpuState told, boolean held) {
    if (held && told != GpuState.GPU_STATE_UNHEALTHY) {
      return "reserved";
    }
    String word = PageJson.word(told, "GPU_STATE_");
    return word.isEmpty() ? "unhealthy" : word;
  }

  private static String health(Gpu gpu, GpuStatus status) {
    GpuHealth health = gpu.getHealth();
    if (health.getState() != GpuHealthState.GPU_HEALTH_STATE_UNSPECIFIED) {
      return PageJson.word(health.getState(), "GPU_HEALTH_STATE_");
    }
    return status.getState() == GpuState.GPU_STATE_UNHEALTHY ? "sick" : "healthy";
  }

  private static String reason(Gpu gpu, GpuStatus status) {
    return gpu.hasHealth() ? gpu.getHealth().getReason() : status.getReason();
  }

  private static void putHolder(PageJson json, Reservation holder) throws IOException {
    if (holder == null) {
      json.putNull("holder");
      return;
    }
    json.putObject(
        "holder",
        one ->
            one.put("reservation", holder.getReservationId())
                .put("user", holder.getOwner().getUser())
                .put("host", holder.getOwner().getHost())
                .put("purpose", holder.getPurpose())
                .put("since", holder.hasGrantedAt(), holder.getGrantedAt())
                // The next end of what is renewed is not one to wait for.
                .put("until", holder.hasExpiresAt() && !holder.getRenewed(), holder.getExpiresAt())
                .putTexts("runs", holder.getRunIdsList())
                .put("heldBack", holder.getHeldBack()));
  }

  private static void addStrangers(PageJson array, ServerView view, Gpu gpu) throws IOException {
    Set<Integer> pids = new HashSet<>();
    for (UnreservedUse use : view.reservations().getUnreservedUseList()) {
      if (use.getUuid().equals(gpu.getUuid())) {
        pids.addAll(use.getPidsList());
      }
    }
    for (GpuProcess process : gpu.getProcesses().getProcessesList()) {
      if (pids.contains(process.getPid())) {
        array.add(
            one ->
                one.put("pid", process.getPid())
                    .put("user", process.hasUser() ? process.getUser() : null)
                    .put("command", process.hasCommand() ? process.getCommand() : null)
                    .put("memory", process.hasMemoryBytes(), process.getMemoryBytes() >> MEBIBYTE));
      }
    }
  }

  private static String lockedBy(ServerView view, String uuid) {
    for (LockHolder holder : view.reservations().getLockedByOthersList()) {
      if (holder.getUuid().equals(uuid)) {
        return holder.getDescription().isEmpty()
            ? holder.getPid() == 0 ? "somebody else" : "process " + holder.getPid()
            : holder.getDescription();
      }
    }
    return "";
  }

  private static void putRun(PageJson json, Run run) throws IOException {
    RunCodeRequest request = run.getRequest();
    Matcher cluster = OF_CLUSTER.matcher(request.getName());
    json.put("id", run.getRunId())
        .put("name", request.getName())
        .put("user", request.getOwner().getUser())
        .put("host", request.getOwner().getHost())
        .put("state", PageJson.word(run.getState(), "RUN_STATE_"))
        .put("ahead", run.getAhead())
        .put("waitingBecause", run.getWaitingBecause())
        .putNumbers(
            "gpus", run.getReservation().getGpusList().stream().map(ReservedGpu::getIndex).toList())
        .put("reservation", run.getReservation().getReservationId())
        .put("program", program(request))
        .put("environment", request.hasService() ? request.getService() : request.getImage())
        .put("detached", request.getDetached())
        .put("submitted", true, run.getAcceptedAt())
        .put("started", run.hasStarted(), run.getStarted().getStartedAt())
        .put("ended", run.hasExited(), run.getExited().getEndedAt())
        .put("exitCode", run.hasExited() && run.hasStarted(), run.getExited().getExitCode())
        .put("reason", PageJson.word(run.getExited().getReason(), "EXIT_REASON_"))
        .put("why", run.getExited().getMessage())
        .put("outputBytes", run.getOutputBytes())
        .put("cluster", cluster.matches() ? cluster.group(1) : "");
  }

  // The script or command with its arguments; empty if the image does what it does by itself.
  private static String program(RunCodeRequest request) {
    List<String> command = withoutPip(request.getCommandList());
    String words = (request.getSource().getFileName() + " " + String.join(" ", command)).strip();
    return words.length() <= LONGEST_PROGRAM ? words : words.substring(0, LONGEST_PROGRAM) + " ...";
  }

  // Clients put what installs Python packages before the program: sh -c SCRIPT berth-pip PROGRAM...
  private static List<String> withoutPip(List<String> command) {
    int name = command.indexOf("berth-pip");
    return name == 3 && command.get(0).equals("sh") && command.get(1).equals("-c")
        ? command.subList(name + 1, command.size())
        : command;
  }

  /** All of a cluster. */
  static String cluster(ClusterStatus cluster) {
    return PageJson.object(json -> putCluster(json, cluster, Integer.MAX_VALUE));
  }

  private static void putCluster(PageJson json, ClusterStatus cluster, int mostNotes)
      throws IOException {
    boolean decided = cluster.getOutcome() != ClusterOutcome.CLUSTER_OUTCOME_UNSPECIFIED;
    boolean begun = cluster.getPhase() != ClusterPhase.CLUSTER_PHASE_UNSPECIFIED;
    List<ClusterNote> notes = cluster.getNotesList();
    json.put("id", cluster.getClusterId())
        .put("name", cluster.getName())
        .put("server", cluster.getServer())
        .put("user", cluster.getOwner().getUser())
        .put("host", cluster.getOwner().getHost())
        .put("phase", begun ? PageJson.word(cluster.getPhase(), "CLUSTER_PHASE_") : "new")
        .put("waitingFor", cluster.getWaitingFor())
        .put("outcome", PageJson.word(cluster.getOutcome(), "CLUSTER_OUTCOME_"))
        .put("why", cluster.getWhy())
        .put("exitCode", decided, cluster.getExitCode())
        .put("submitted", true, cluster.getSubmittedAt())
        .put("formed", cluster.hasFormedAt(), cluster.getFormedAt())
        .put("endsBy", cluster.hasEndsBy(), cluster.getEndsBy())
        .put("ended", cluster.hasEndedAt(), cluster.getEndedAt())
        .put("restarts", cluster.getRestarts())
        .put("resubmissions", cluster.getResubmissions())
        .put("supervisorRestarts", cluster.getSupervisorRestarts())
        .putArray(
            "tasks",
            array -> {
              for (TaskStatus task : cluster.getTasksList()) {
                array.add(one -> putTask(one, task));
              }
            })
        .putArray(
            "notes",
            array -> {
              for (ClusterNote note :
                  notes.subList(Math.max(0, notes.size() - mostNotes), notes.size())) {
                array.add(one -> one.put("at", true, note.getAt()).put("text", note.getText()));
              }
            });
  }

  private static void putTask(PageJson json, TaskStatus task) throws IOException {
    json.put("name", task.getType() + ":" + task.getIndex())
        .put("gpuCount", task.getGpuCount())
        .put("restarts", task.getRestarts())
        .putArray(
            "attempts",
            array -> {
              for (TaskAttempt attempt : task.getAttemptsList()) {
                array.add(one -> putAttempt(one, attempt));
              }
            });
  }

  private static void putAttempt(PageJson json, TaskAttempt attempt) throws IOException {
    json.put("number", attempt.getNumber())
        .put("server", attempt.getServer())
        .put("run", attempt.getRunId())
        .putNumbers("gpus", attempt.getGpusList())
        .put("address", attempt.getAddress())
        .put("started", attempt.hasStartedAt(), attempt.getStartedAt())
        .put("ended", attempt.hasEndedAt(), attempt.getEndedAt())
        .put("end", PageJson.word(attempt.getEnd(), "TASK_END_"))
        .put("exitCode", attempt.hasExitCode(), attempt.getExitCode())
        .put("why", attempt.getWhy())
        .put("seconds", PageJson.seconds(attempt.getWallTime()));
  }

  /**
   * The last minutes of a server's GPUs.
   *
   * @param now when they were asked for, by the clock of this machine: the server's may differ
   */
  static String history(GetGpuHistoryResponse history, long now) {
    return PageJson.object(
        json ->
            json.put("stepSeconds", PageJson.seconds(history.getStep()))
                .put(
                    "end",
                    history.hasAge(),
                    now - Math.round(PageJson.seconds(history.getAge()) * 1000))
                .putArray(
                    "gpus",
                    array -> {
                      for (GpuHistory gpu : history.getGpusList()) {
                        array.add(
                            one -> {
                              one.put("uuid", gpu.getUuid());
                              putKnown(one, "util", gpu.getUtilizationPercentList());
                              putKnown(one, "memory", gpu.getMemoryMebibytesList());
                              putKnown(one, "temperature", gpu.getTemperatureCelsiusList());
                              putKnown(one, "power", gpu.getPowerWattsList());
                            });
                      }
                    }));
  }

  private static void putKnown(PageJson json, String name, List<Integer> values)
      throws IOException {
    json.putArray(
        name,
        array -> {
          for (int value : values) {
            array.add(value >= 0, value);
          }
        });
  }
}
