package berth.cli;

import berth.command.DurationConverter;
import berth.command.SizeConverter;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Limits;
import berth.v1.WarningSignal;
import java.time.Duration;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options that say what a run may use. */
final class LimitOptions {
  @Option(
      names = "--time",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "End the program after this time, such as 2h; the exit code is then 124.")
  private Optional<Duration> time = Optional.empty();

  @Option(
      names = "--signal",
      paramLabel = "NAME@TIME",
      converter = WarningConverter.class,
      description = "With --time: send this signal so long before, such as USR1@60 (seconds).")
  private Optional<WarningSignal> warning = Optional.empty();

  @Option(
      names = "--stop-grace",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "Time between SIGTERM and SIGKILL when the run must end (default: 10s).")
  private Optional<Duration> stopGrace = Optional.empty();

  @Option(
      names = "--memory",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Most memory that it may use, such as 8g.")
  private Optional<Long> memory = Optional.empty();

  @Option(names = "--cpus", paramLabel = "N", description = "Most CPUs, also parts: 1.5.")
  private Optional<Double> cpus = Optional.empty();

  @Option(names = "--processes", paramLabel = "N", description = "Most processes and threads.")
  private Optional<Long> processes = Optional.empty();

  @Option(
      names = "--shm",
      paramLabel = "SIZE",
      converter = SizeConverter.class,
      description = "Size of /dev/shm, such as 1g.")
  private Optional<Long> sharedMemory = Optional.empty();

  Limits limits() {
    if (warning.isPresent() && time.isEmpty()) {
      throw new BerthException(
          Reason.INVALID, "--signal warns of the end of --time: say how long that is");
    }
    Limits.Builder limits = Limits.newBuilder();
    time.ifPresent(duration -> limits.setTime(Messages.duration(duration)));
    warning.ifPresent(limits::setWarning);
    stopGrace.ifPresent(duration -> limits.setStopGrace(Messages.duration(duration)));
    memory.ifPresent(limits::setMemoryBytes);
    cpus.ifPresent(limits::setCpus);
    processes.ifPresent(limits::setProcesses);
    sharedMemory.ifPresent(limits::setSharedMemoryBytes);
    return limits.build();
  }

  /** Reads {@code USR1@60}, as Slurm has it, and {@code USR1@2m}. */
  static final class WarningConverter implements ITypeConverter<WarningSignal> {
    private static final Pattern FORM = Pattern.compile("(?:SIG)?([A-Z][A-Z0-9+-]*)@(\\d+)(\\D*)");

    @Override
    public WarningSignal convert(String text) {
      Matcher matcher = FORM.matcher(text);
      if (!matcher.matches()) {
        throw new TypeConversionException(
            "'" + text + "' is not a signal and a time, such as USR1@60 or USR1@2m");
      }
      String unit = matcher.group(3).isEmpty() ? "s" : matcher.group(3);
      Duration before = new DurationConverter().convert(matcher.group(2) + unit);
      return WarningSignal.newBuilder()
          .setSignal(matcher.group(1))
          .setBefore(Messages.duration(before))
          .build();
    }
  }
}
