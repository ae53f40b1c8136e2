package berth.examples;

import berth.client.call.FollowedRun;
import berth.client.call.RunClient;
import berth.client.call.RunLines;
import berth.command.CommandRunner;
import berth.v1.RunCodeRequest;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Trains a network on a server, and reads its accuracy from what the training prints. */
@Command(name = "TrainDigits", description = "Teaches a network of Keras to read digits.")
public final class TrainDigits implements Callable<Integer> {
  private static final Duration UPLOAD_TIMEOUT = Duration.ofSeconds(60);
  private static final Pattern ACCURACY = Pattern.compile("accuracy (\\S+) on .*");

  @Mixin private JobOptions options;

  private double accuracy;

  public static void main(String[] args) {
    System.exit(CommandRunner.run(new TrainDigits(), args));
  }

  @Override
  public Integer call() throws IOException {
    try (RunClient runs = RunClient.of(options.server())) {
      // The server keeps the files: the next run sends nothing but their digest.
      String bundle = runs.uploadFolder(options.jobs(), UPLOAD_TIMEOUT);
      RunCodeRequest request =
          options.request("python3", "-u", "tf_digits.py").setBundle(bundle).build();

      RunLines lines = new RunLines(this::read, System.err::println);
      new FollowedRun(runs, lines).run(request);

      System.out.printf(
          "exit code %d, accuracy %.1f %%, %d s%n",
          lines.exitCode(), accuracy * 100, lines.exited().getWallTime().getSeconds());
      return lines.exitCode();
    }
  }

  private void read(String line) {
    System.out.println(line);
    Matcher matcher = ACCURACY.matcher(line);
    if (matcher.matches()) {
      accuracy = Double.parseDouble(matcher.group(1));
    }
  }
}
