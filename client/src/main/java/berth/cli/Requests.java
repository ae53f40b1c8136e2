package berth.cli;

import berth.command.GpuOptions;
import berth.rpc.Messages;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.WaitTime;
import java.time.Duration;
import java.util.Optional;

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

  static WaitTime wait(Optional<Duration> limit) {
    return limit.isPresent()
        ? WaitTime.newBuilder().setAtMost(Messages.duration(limit.get())).build()
        : WaitTime.newBuilder().setForever(true).build();
  }
}
