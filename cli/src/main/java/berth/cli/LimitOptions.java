package berth.cli;

import berth.client.spec.IdleLimit;
import berth.client.spec.Warning;
import berth.command.DurationConverter;
import berth.command.SizeConverter;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.text.InvalidValueException;
import berth.v1.Limits;
import berth.v1.WarningSignal;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Function;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options that say what a run may use. */
final class LimitOptions {
  @Option(
      names = "--time",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "Time limit, for example 2h or 1h30m; exit code 124.")
  private Optional<Duration> time = Optional.empty();

  @Option(
      names = "--signal",
      paramLabel = "NAME@TIME",
      converter = WarningConverter.class,
      description =
          "With --time: send this signal this long before the end, for example USR1@60 (seconds).")
  private Optional<Warning> warning = Optional.empty();

  @Option(
      names = "--idle",
      paramLabel = "PERCENT@TIME",
      converter = IdleConverter.class,
      description =
          "Stop the run when its GPU utilisation stays below this, for example 5%%@30m; exit code"
              + " 124.")
  private Optional<IdleLimit> idle = Optional.empty();

  @Option(
      names = "--stop-grace",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "Time between SIGTERM and SIGKILL (default: 10s).")
  private Optional<Duration> stopGrace = Optional.empty();

  @Option(
      names = "--memory",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Memory limit, for example 8g.")
  private Optional<Long> memory = Optional.empty();

  @Option(names = "--cpus", paramLabel = "N", description = "CPU limit, for example 1.5.")
  private Optional<Double> cpus = Optional.empty();

  @Option(names = "--processes", paramLabel = "N", description = "Limit of processes and threads.")
  private Optional<Long> processes = Optional.empty();

  @Option(
      names = "--shm",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Size of /dev/shm, for example 1g.")
  private Optional<Long> sharedMemory = Optional.empty();

  Limits limits() {
    if (warning.isPresent() && time.isEmpty()) {
      throw new BerthException(Reason.INVALID, "--signal requires --time");
    }
    Limits.Builder limits = Limits.newBuilder();
    time.ifPresent(duration -> limits.setTime(Messages.duration(duration)));
    warning.ifPresent(
        ahead ->
            limits.setWarning(
                WarningSignal.newBuilder()
                    .setSignal(ahead.signal())
                    .setBefore(Messages.duration(ahead.before()))));
    idle.ifPresent(
        limit ->
            limits.setIdle(
                berth.v1.IdleLimit.newBuilder()
                    .setBelowPercent(limit.belowPercent())
                    .setTime(Messages.duration(limit.time()))));
    stopGrace.ifPresent(duration -> limits.setStopGrace(Messages.duration(duration)));
    memory.ifPresent(limits::setMemoryBytes);
    cpus.ifPresent(limits::setCpus);
    processes.ifPresent(limits::setProcesses);
    sharedMemory.ifPresent(limits::setSharedMemoryBytes);
    return limits.build();
  }

  /**
   * Reads a value; what is wrong with it becomes an exception of picocli, which names the option.
   */
  static <T> T read(String text, Function<String, T> parser) {
    try {
      return parser.apply(text);
    } catch (BerthException | InvalidValueException e) {
      throw new TypeConversionException(e.getMessage());
    }
  }

  /** Reads {@code 5%@30m}. */
  static final class IdleConverter implements ITypeConverter<IdleLimit> {
    @Override
    public IdleLimit convert(String text) {
      return read(text, IdleLimit::parse);
    }
  }

  /** Reads {@code USR1@60}. */
  static final class WarningConverter implements ITypeConverter<Warning> {
    @Override
    public Warning convert(String text) {
      return read(text, Warning::parse);
    }
  }
}
