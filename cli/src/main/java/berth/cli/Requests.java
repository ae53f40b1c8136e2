package berth.cli;

import berth.v1.GpuRequest;
import berth.v1.GpuSet;

/** The parts of requests that several commands make. */
final class Requests {
  private Requests() {}

  static GpuRequest gpus(GpuOptions options) {
    GpuRequest.Builder wanted =
        GpuRequest.newBuilder()
            .setMinFreeMemoryBytes(options.minFreeMemory())
            .setModel(options.model());
    if (options.ids().isEmpty()) {
      wanted.setCount(options.count());
    } else {
      wanted.setExactly(GpuSet.newBuilder().addAllIds(options.ids()));
    }
    return wanted.build();
  }
}
