package berth.command;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/**
 * The options by which every command that takes GPUs says which, and how long it waits for them.
 */
public final class GpuOptions {
  /** The number that stands for all GPUs of a server, here and in the protocol. */
  public static final int ALL = -1;

  @ArgGroup private Choice choice = new Choice();

  /** Either a number or given ones. */
  static final class Choice {
    @Option(
        names = {"-g", "--gpus"},
        paramLabel = "N",
        converter = CountConverter.class,
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

  /** How many; {@link #ALL} for all. Meaningless with {@link #ids}. */
  public int count() {
    return choice.count.orElse(1);
  }

  /** Whether a number of GPUs was asked for in so many words. */
  public boolean countGiven() {
    return choice.count.isPresent();
  }

  public List<String> ids() {
    return choice.ids;
  }

  /** Bytes; 0 for any. */
  public long minFreeMemory() {
    return minMemory.orElse(0L);
  }

  /** Empty for any. */
  public String model() {
    return model;
  }

  /** Zero: not at all; empty: for ever. */
  public Optional<Duration> waitAtMost() {
    return waitAtMost;
  }

  /** Reads a number of GPUs, or {@code all}, which is {@link #ALL}. */
  public static final class CountConverter implements ITypeConverter<Integer> {
    @Override
    public Integer convert(String text) {
      if (text.equals("all")) {
        return ALL;
      }
      try {
        int count = Integer.parseInt(text);
        if (count < 0) {
          throw new TypeConversionException(
              "number of GPUs must not be negative: " + text + " (use 'all' for all)");
        }
        return count;
      } catch (NumberFormatException e) {
        throw new TypeConversionException("'" + text + "' is neither a number nor 'all'");
      }
    }
  }
}
