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
  private static final int ALL = -1;

  @ArgGroup private Choice choice = new Choice();

  /** Either a number or given ones. */
  static final class Choice {
    @Option(
        names = {"-g", "--gpus"},
        paramLabel = "N",
        converter = CountConverter.class,
        description =
            "How many GPUs: a number, or 'all' (default: 1, but none for 'berth run'). The best"
                + " connected free ones are taken.")
    private Optional<Integer> count = Optional.empty();

    @Option(
        names = "--gpu",
        paramLabel = "ID",
        split = ",",
        description = "Exactly this GPU, by index or UUID; may be repeated.")
    private List<String> ids = List.of();
  }

  @Option(
      names = "--min-memory",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Memory that must be free on each, such as 20g.")
  private Optional<Long> minMemory = Optional.empty();

  @Option(
      names = "--model",
      paramLabel = "TEXT",
      defaultValue = "",
      description = "Part of the name of the model, such as A100.")
  private String model;

  @Option(
      names = "--wait",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description =
          "Wait at most so long for GPUs that are in use; 0s: not at all (default: for ever).")
  private Optional<Duration> waitAtMost = Optional.empty();

  /** How many; -1 for all. Meaningless with {@link #ids}. */
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

  /** Reads a number of GPUs, or {@code all}, which is -1. */
  public static final class CountConverter implements ITypeConverter<Integer> {
    @Override
    public Integer convert(String text) {
      if (text.equals("all")) {
        return ALL;
      }
      try {
        return Integer.valueOf(text);
      } catch (NumberFormatException e) {
        throw new TypeConversionException("'" + text + "' is neither a number nor 'all'");
      }
    }
  }
}
