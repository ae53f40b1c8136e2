package berth.server.run;

import static berth.server.run.RequestedRun.invalid;

import berth.rpc.ByteSize;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * What a run may use; what is empty has no limit, or that of the service or the server.
 *
 * @param warning a signal before the time is over
 * @param stopGrace from SIGTERM to SIGKILL
 * @param processes threads included
 * @param sharedMemory size of /dev/shm
 * @param idle how long it may leave its GPUs unused; says nothing to a run that has none
 */
public record Limits(
    Optional<Duration> time,
    Optional<Warning> warning,
    Duration stopGrace,
    OptionalLong memory,
    OptionalDouble cpus,
    OptionalLong processes,
    OptionalLong sharedMemory,
    Optional<Idle> idle) {
  static final Duration DEFAULT_GRACE = Duration.ofSeconds(10);
  private static final long LEAST_MEMORY = 6 << 20;
  private static final Duration LONGEST_GRACE = Duration.ofHours(1);
  private static final Duration LONGEST_TIME = Duration.ofDays(3660);

  /** A signal by its name without SIG, so long before the end. */
  public record Warning(String signal, Duration before) {
    public Warning {
      signal = signal.toUpperCase(Locale.ROOT).replaceFirst("^SIG", "");
      if (!signal.matches("HUP|INT|QUIT|USR1|USR2|TERM|CONT|ALRM|WINCH")) {
        throw invalid(
            "signal '"
                + signal
                + "' not supported before the time limit; use for example USR1, INT or TERM");
      }
      if (before.isNegative() || before.isZero()) {
        throw invalid("the signal must come before the time limit");
      }
    }
  }

  /** All GPUs of a run with a utilisation below this, for this long without a break. */
  public record Idle(int belowPercent, Duration time) {
    public Idle {
      if (belowPercent < 1 || belowPercent > 100) {
        throw invalid(
            "an idle limit of "
                + Integer.toUnsignedString(belowPercent)
                + " % asked; it must be from 1 to 100");
      }
      if (time.compareTo(Duration.ofSeconds(1)) < 0) {
        throw invalid(
            "an idle limit of " + seconds(time) + " s asked; it must be a second or more");
      }
      if (time.compareTo(LONGEST_TIME) > 0) {
        throw invalid("an idle limit of " + time.toDays() + " days asked; at most ten years");
      }
    }

    @Override
    public String toString() {
      return "less than " + belowPercent + " % for " + seconds(time) + " s";
    }

    private static String seconds(Duration time) {
      return BigDecimal.valueOf(time.toMillis(), 3).stripTrailingZeros().toPlainString();
    }
  }

  public Limits {
    if (time.map(t -> t.isNegative() || t.isZero()).orElse(false)) {
      throw invalid(
          "a time limit of " + time.get().toMillis() / 1000.0 + " s asked; it must be above 0");
    }
    if (time.map(t -> t.compareTo(LONGEST_TIME) > 0).orElse(false)) {
      throw invalid("a time limit of " + time.get().toDays() + " days asked; at most ten years");
    }
    if (warning.isPresent() && time.isEmpty()) {
      throw invalid("a signal before the time limit requires a time limit");
    }
    if (stopGrace.isNegative() || stopGrace.compareTo(LONGEST_GRACE) > 0) {
      throw invalid(
          "a grace of " + stopGrace.toSeconds() + " s asked; it must be between 0 and an hour");
    }
    if (memory.isPresent() && memory.getAsLong() < LEAST_MEMORY) {
      throw invalid(ByteSize.text(memory.getAsLong()) + " of memory asked; the least is 6 MiB");
    }
    if (cpus.isPresent() && !(cpus.getAsDouble() >= 0.01 && cpus.getAsDouble() <= 4096)) {
      throw invalid(cpus.getAsDouble() + " CPUs asked; ask for 0.01 or more");
    }
    if (processes.isPresent() && processes.getAsLong() < 1) {
      throw invalid(processes.getAsLong() + " processes asked; ask for 1 or more");
    }
    if (sharedMemory.isPresent() && sharedMemory.getAsLong() < 1) {
      throw invalid(
          ByteSize.text(sharedMemory.getAsLong()) + " of shared memory asked; ask for 1 or more");
    }
  }

  /** With those of the service where these say nothing. */
  Limits or(Service service) {
    return new Limits(
        time.or(service::time),
        warning,
        stopGrace,
        memory.isPresent() ? memory : service.memoryBytes(),
        cpus.isPresent() ? cpus : service.cpus(),
        processes.isPresent() ? processes : service.processes(),
        sharedMemory.isPresent() ? sharedMemory : service.sharedMemoryBytes(),
        idle);
  }
}
