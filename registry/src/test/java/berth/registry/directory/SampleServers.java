package berth.registry.directory;

import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.HeartbeatRequest;
import berth.v1.RegisterRequest;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import java.util.Map;

/** Servers for tests. */
final class SampleServers {
  static final long GIB = 1L << 30;

  private SampleServers() {}

  /** A registration of a process that never registered before. */
  static RegisterRequest registration(String name, String address, String instance, int gpus) {
    return RegisterRequest.newBuilder()
        .setInfo(info(name, address, gpus, "NVIDIA A100-SXM4-80GB", 80 * GIB))
        .setStatus(status(gpus, gpus))
        .setInstance(instance)
        .build();
  }

  static ServerInfo info(String name, String address, int gpus, String model, long memory) {
    ServerInfo.Builder info =
        ServerInfo.newBuilder()
            .setName(name)
            .setAddress(address)
            .setCpus(64)
            .setMemoryBytes(512 * GIB)
            .addServices(
                Service.newBuilder().setName("TensorFlow").addAliases("tensorflow-2.21").build())
            .putAllLabels(Map.of("room", "b12"));
    for (int i = 0; i < gpus; i++) {
      info.addGpus(
          GpuInfo.newBuilder()
              .setIndex(i)
              .setUuid("GPU-" + name + "-" + i)
              .setModel(model)
              .setMemoryBytes(memory));
    }
    return info.build();
  }

  /** The first {@code free} of the GPUs are free, the others reserved. */
  static ServerStatus status(int gpus, int free) {
    ServerStatus.Builder status = ServerStatus.newBuilder().setCanRun(true);
    for (int i = 0; i < gpus; i++) {
      status.addGpus(
          GpuStatus.newBuilder()
              .setIndex(i)
              .setState(i < free ? GpuState.GPU_STATE_FREE : GpuState.GPU_STATE_RESERVED));
    }
    return status.build();
  }

  static HeartbeatRequest heartbeat(String name, String instance, String leaseId) {
    return HeartbeatRequest.newBuilder()
        .setName(name)
        .setInstance(instance)
        .setLeaseId(leaseId)
        .build();
  }

  /** A server as a registry lists it. */
  static Server listed(ServerInfo info, ServerStatus status) {
    return Server.newBuilder()
        .setInfo(info)
        .setStatus(status)
        .setInstance("i-" + info.getName())
        .setGeneration(1)
        .build();
  }
}
