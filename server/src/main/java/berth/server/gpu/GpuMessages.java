package berth.server.gpu;

import berth.host.gpu.Gpu;
import berth.host.gpu.GpuHealth;
import berth.host.gpu.GpuHealthChange;
import berth.host.gpu.GpuLink;
import berth.host.gpu.GpuSample;
import berth.host.gpu.RecoveryAction;
import berth.rpc.Messages;
import berth.v1.GpuEccErrors;
import berth.v1.GpuHealthState;
import berth.v1.GpuMemory;
import berth.v1.GpuProcess;
import berth.v1.GpuProcesses;
import berth.v1.GpuRecoveryAction;
import berth.v1.GpuReport;
import berth.v1.MigMode;
import berth.v1.PcieDistance;

/** Writes what we know of GPUs as the messages of {@code berth/v1/gpu.proto}. */
public final class GpuMessages {
  private final String serverName;

  public GpuMessages(String serverName) {
    this.serverName = serverName;
  }

  public GpuReport report(GpuSample sample, long nowNanos) {
    GpuReport.Builder report =
        GpuReport.newBuilder().setServer(serverName).setSimulated(sample.simulated());
    sample
        .taken()
        .ifPresent(
            taken ->
                report
                    .setSampledAt(Messages.timestamp(taken.wall()))
                    .setAge(Messages.duration(taken.age(nowNanos))));
    sample.driverVersion().ifPresent(report::setDriverVersion);
    sample.cudaVersion().ifPresent(report::setCudaVersion);
    sample.problem().ifPresent(report::setProblem);
    sample.gpus().forEach(gpu -> report.addGpus(gpu(gpu)));
    sample.links().forEach(link -> report.addLinks(link(link)));
    return report.build();
  }

  berth.v1.GpuHealthChange healthChange(GpuHealthChange change) {
    return berth.v1.GpuHealthChange.newBuilder()
        .setUuid(change.uuid())
        .setIndex(change.index())
        .setBefore(health(change.before()))
        .setAfter(health(change.after()))
        .setNoticedAt(Messages.timestamp(change.noticed()))
        .build();
  }

  static berth.v1.Gpu gpu(Gpu gpu) {
    berth.v1.Gpu.Builder message =
        berth.v1.Gpu.newBuilder()
            .setIndex(gpu.index())
            .setUuid(gpu.uuid())
            .setHealth(health(gpu.health()));
    gpu.pciBusId().ifPresent(message::setPciBusId);
    gpu.name().ifPresent(message::setName);
    gpu.memory()
        .ifPresent(
            memory ->
                message.setMemory(
                    GpuMemory.newBuilder()
                        .setTotalBytes(memory.total())
                        .setUsedBytes(memory.used())
                        .setFreeBytes(memory.free())));
    gpu.utilization()
        .ifPresent(
            utilization ->
                message
                    .setGpuUtilizationPercent(utilization.gpu())
                    .setMemoryUtilizationPercent(utilization.memory()));
    gpu.temperatureCelsius().ifPresent(message::setTemperatureCelsius);
    gpu.powerMilliwatts().ifPresent(message::setPowerMilliwatts);
    gpu.powerLimitMilliwatts().ifPresent(message::setPowerLimitMilliwatts);
    gpu.processes()
        .ifPresent(
            processes -> {
              GpuProcesses.Builder list = GpuProcesses.newBuilder();
              processes.forEach(process -> list.addProcesses(process(process)));
              message.setProcesses(list);
            });
    if (gpu.correctedEccErrors().isPresent() || gpu.uncorrectedEccErrors().isPresent()) {
      GpuEccErrors.Builder errors = GpuEccErrors.newBuilder();
      gpu.correctedEccErrors().ifPresent(errors::setCorrected);
      gpu.uncorrectedEccErrors().ifPresent(errors::setUncorrected);
      message.setEccErrors(errors);
    }
    gpu.migEnabled()
        .map(enabled -> enabled ? MigMode.MIG_MODE_ENABLED : MigMode.MIG_MODE_DISABLED)
        .ifPresent(message::setMigMode);
    return message.build();
  }

  private static GpuProcess process(Gpu.Process process) {
    GpuProcess.Builder message = GpuProcess.newBuilder().setPid(process.pid());
    process.memory().ifPresent(message::setMemoryBytes);
    process.user().ifPresent(message::setUser);
    process.command().ifPresent(message::setCommand);
    return message.build();
  }

  private static berth.v1.GpuHealth health(GpuHealth health) {
    GpuHealthState state =
        switch (health.state()) {
          case HEALTHY -> GpuHealthState.GPU_HEALTH_STATE_HEALTHY;
          case SICK -> GpuHealthState.GPU_HEALTH_STATE_SICK;
          case LOST -> GpuHealthState.GPU_HEALTH_STATE_LOST;
          case UNKNOWN -> GpuHealthState.GPU_HEALTH_STATE_UNKNOWN;
        };
    return berth.v1.GpuHealth.newBuilder()
        .setState(state)
        .setReason(health.reason())
        .setRecoveryAction(
            health
                .action()
                .map(GpuMessages::recoveryAction)
                .orElse(GpuRecoveryAction.GPU_RECOVERY_ACTION_UNSPECIFIED))
        .setAdvice(health.advice())
        .build();
  }

  private static GpuRecoveryAction recoveryAction(RecoveryAction action) {
    return switch (action) {
      case NONE -> GpuRecoveryAction.GPU_RECOVERY_ACTION_NONE;
      case INSPECT -> GpuRecoveryAction.GPU_RECOVERY_ACTION_INSPECT;
      case DRAIN_P2P -> GpuRecoveryAction.GPU_RECOVERY_ACTION_DRAIN_P2P;
      case DRAIN_AND_RESET -> GpuRecoveryAction.GPU_RECOVERY_ACTION_DRAIN_AND_RESET;
      case GPU_RESET -> GpuRecoveryAction.GPU_RECOVERY_ACTION_GPU_RESET;
      case NODE_REBOOT -> GpuRecoveryAction.GPU_RECOVERY_ACTION_NODE_REBOOT;
    };
  }

  private static berth.v1.GpuLink link(GpuLink link) {
    berth.v1.GpuLink.Builder message =
        berth.v1.GpuLink.newBuilder()
            .setIndexA(link.indexA())
            .setIndexB(link.indexB())
            .setNvlinks(link.nvlinks());
    link.pcie().ifPresent(distance -> message.setPcieDistance(pcieDistance(distance)));
    return message.build();
  }

  private static PcieDistance pcieDistance(GpuLink.PcieDistance distance) {
    return switch (distance) {
      case SAME_BOARD -> PcieDistance.PCIE_DISTANCE_SAME_BOARD;
      case ONE_SWITCH -> PcieDistance.PCIE_DISTANCE_ONE_SWITCH;
      case SEVERAL_SWITCHES -> PcieDistance.PCIE_DISTANCE_SEVERAL_SWITCHES;
      case HOST_BRIDGE -> PcieDistance.PCIE_DISTANCE_HOST_BRIDGE;
      case NUMA_NODE -> PcieDistance.PCIE_DISTANCE_NUMA_NODE;
      case SYSTEM -> PcieDistance.PCIE_DISTANCE_SYSTEM;
    };
  }
}
