package berth.e2e.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** The old algorithm, by {@code seed_reservations.py}. */
final class SeedSide implements Side {
  private final Path program;
  private final Path locks;
  private final int gpus;

  SeedSide(Path program, Path locks, int gpus) {
    this.program = program;
    this.locks = locks;
    this.gpus = gpus;
  }

  @Override
  public Throughput loop(int clients, int holdMillis, int seconds) {
    return Throughput.of(numbers("loop", clients, holdMillis, seconds), seconds);
  }

  @Override
  public long[] handOvers(int times) {
    return numbers("hand-over", times);
  }

  /** A process that holds all GPUs whenever it is told to. */
  Holder holder() {
    return new Holder(start("hold"));
  }

  private long[] numbers(Object... mode) {
    Process process = start(mode);
    try (BufferedReader out = process.inputReader()) {
      long[] numbers =
          out.lines().flatMapToLong(line -> LongStream.of(Long.parseLong(line))).toArray();
      if (process.waitFor() != 0) {
        throw new IllegalStateException(program + " failed");
      }
      return numbers;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } finally {
      process.destroy();
    }
  }

  private Process start(Object... mode) {
    List<String> command =
        Stream.concat(Stream.of("/usr/bin/python3", program, locks, gpus), Stream.of(mode))
            .map(Object::toString)
            .toList();
    try {
      return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static final class Holder implements AutoCloseable {
    private final Process process;
    private final BufferedReader out;

    private Holder(Process process) {
      this.process = process;
      this.out = process.inputReader();
    }

    void hold() {
      ask();
    }

    /** When it began to release: both languages read the same clock of the kernel. */
    long release() {
      return Long.parseLong(ask());
    }

    private String ask() {
      try {
        process.getOutputStream().write('\n');
        process.getOutputStream().flush();
        return out.readLine();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public void close() {
      process.destroy();
    }
  }
}
