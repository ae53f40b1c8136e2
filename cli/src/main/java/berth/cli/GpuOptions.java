package berth.cli;

import berth.command.DurationConverter;
import berth.command.GpuCountConverter;
import berth.command.SizeConverter;
import berth.text.Values;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Option;

/**
 * The options by which every command that takes GPUs says which, and how long it waits for them.
 */
final class GpuOptions {
  @ArgGroup private Choice choice = new Choice();

  /** Either a number or given ones. */
  static final class Choice {
    @Option(
        names = {"-g", "--gpus"},
        paramLabel = "N",
        converter = GpuCountConverter.class,
        description =
            "Number of GPUs, or 'all' (default: 1; 0 for 'berth run'). The best connected free GPUs"
                + " are chosen.")
    private Optional<Integer> count = Optional.empty();

    @Option(
        names = "--gpu",
        paramLabel = "ID",
        split = ",",
        description = "Exactly this GPU, by index or UUID; repeatable.")
    private List<String> ids = List.of();
  }

  @Option(
      names = "--min-memory",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Free memory required on each GPU, for example 20g.")
  private Optional<Long> minMemory = Optional.empty();

  @Option(
      names = "--model",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "GPU model, or part of its name, for example A100.")
  private String model;

  @Option(
      names = "--wait",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "Maximum time to wait for GPUs; 0s: do not wait (default: no limit).")
  private Optional<Duration> waitAtMost = Optional.empty();

  /** How many; {@link Values#ALL_GPUS} for all. Meaningless with {@link #ids}. */
  int count() {
    return choice.count.orElse(1);
  }

  /** Whether a number of GPUs was asked for in so many words. */
  boolean countGiven() {
    return choice.count.isPresent();
  }

  List<String> ids() {
    return choice.ids;
  }

  /** Bytes; 0 for any. */
  long minFreeMemory() {
    return minMemory.orElse(0L);
  }

  /** Empty for any. */
  String model() {
    return model;
  }

  /** Zero: not at all; empty: for ever. */
  Optional<Duration> waitAtMost() {
    return waitAtMost;
  }
}
