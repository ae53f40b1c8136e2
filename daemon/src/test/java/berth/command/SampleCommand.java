package berth.command;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** A daemon's command as Berth has them, which does what the test gives it to do. */
@Command(name = "sample", mixinStandardHelpOptions = true)
final class SampleCommand implements Callable<Integer> {
  @Option(
      names = {"-l", "--listen"},
      defaultValue = "127.0.0.1:18812")
  String listen;

  @Option(names = "--interval", converter = DurationConverter.class, defaultValue = "2s")
  Duration interval;

  @Option(names = "--gpus", defaultValue = "0")
  int gpus;

  @Option(names = "--insecure")
  boolean insecure;

  @Option(names = "--config")
  Path config;

  @Option(names = "-v")
  boolean verbose;

  @Option(names = "--label", paramLabel = "KEY=VALUE")
  Map<String, String> labels = Map.of();

  @ArgGroup Place place = new Place();

  /** One of two. */
  static final class Place {
    @Option(names = "--here")
    boolean here;

    @Option(names = "--there")
    boolean there;
  }

  @Option(names = "--stacktrace")
  boolean stackTrace;

  private final Callable<Integer> work;

  SampleCommand(Callable<Integer> work) {
    this.work = work;
  }

  @Override
  public Integer call() throws Exception {
    return work.call();
  }
}
