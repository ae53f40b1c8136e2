package berth.cli;

import berth.command.SizeConverter;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ServerFilter;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options that choose among the servers of a registry. */
final class ServerFilterOptions {
  @Mixin private LabelOption labels;

  @Option(
      names = "--service",
      paramLabel = "NAME",
      defaultValue = "",
      description = "Only servers with this service.")
  private String service;

  @Option(
      names = "--model",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Only servers with a GPU whose model name contains TEXT.")
  private String model;

  @Option(
      names = "--min-memory",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Only servers with a GPU of at least this memory, for example 40g.")
  private Optional<Long> minMemory = Optional.empty();

  @Option(
      names = "--free",
      paramLabel = "N",
      defaultValue = "0",
      description = "Only servers with at least N such GPUs free.")
  private int free;

  ServerFilter filter() {
    return ServerFilter.newBuilder()
        .putAllLabels(labels.labels())
        .setService(service)
        .setModel(model)
        .setMinGpuMemoryBytes(minMemory.orElse(0L))
        .setMinFreeGpus(free)
        .build();
  }

  /** The option that chooses servers by what their administrators say of them. */
  static final class LabelOption {
    @Option(
        names = "--label",
        paramLabel = "KEY=VALUE",
        description = "Only servers of the registry with this label; repeatable.")
    private Map<String, String> labels = Map.of();

    Map<String, String> labels() {
      return labels;
    }

    /**
     * The servers that have the labels.
     *
     * @throws BerthException if there are labels, and no registry to ask for them
     */
    ServerFilter filter(Servers servers) {
      if (servers.registry().isEmpty() && !labels.isEmpty()) {
        throw new BerthException(Reason.INVALID, "--label requires a registry");
      }
      return ServerFilter.newBuilder().putAllLabels(labels).build();
    }
  }
}
