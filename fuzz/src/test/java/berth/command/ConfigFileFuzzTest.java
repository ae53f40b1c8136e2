package berth.command;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

class ConfigFileFuzzTest {
  private static final Scratch SCRATCH = new Scratch();

  @Command(name = "sample")
  private static final class Sample implements Runnable {
    @Option(names = "--config")
    Path config;

    @Option(names = "--listen")
    String listen;

    @Option(names = "--lease", converter = DurationConverter.class)
    Duration lease;

    @Option(names = "--bundle-limit", converter = SizeConverter.class)
    Long limit;

    @Option(names = "--mounts", split = ",")
    List<String> mounts;

    @Option(names = "--insecure")
    boolean insecure;

    @Option(names = "--number")
    Integer number;

    @Override
    public void run() {}
  }

  static Stream<byte[]> seeds() throws IOException {
    Path root = Path.of(System.getProperty("berth.root"));
    return Stream.of(
        "listen: 127.0.0.1:18812\nlease: 10s\nbundle-limit: 2g\nmounts: /a:ro,/b\ninsecure: true\nnumber: 3\n"
            .getBytes(StandardCharsets.UTF_8),
        "# nothing\n".getBytes(StandardCharsets.UTF_8),
        Files.readAllBytes(root.resolve("server/src/main/config/berthd.yaml")));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isReadOrRefusedWithASentence(byte[] data) throws Exception {
    Path file = Files.write(SCRATCH.empty().resolve("berth.yaml"), data);
    Inputs.accepted(() -> parse(file));
  }

  private static Optional<Sample> parse(Path file) {
    Sample sample = new Sample();
    CommandLine command = new CommandLine(sample);
    String[] args = {"--config", file.toString()};
    command.setDefaultValueProvider(new ConfigFile(file, command.getCommandSpec(), List.of(args)));
    try {
      command.parseArgs(args);
      return Optional.of(sample);
    } catch (ParameterException e) {
      return Optional.empty();
    }
  }
}
