package berth.examples;

import berth.client.call.FollowedRun;
import berth.client.call.RunClient;
import berth.client.call.RunLines;
import berth.command.CommandRunner;
import berth.v1.RunCodeRequest;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Trains a network on several GPUs of a server at once, and checks that it used them all. */
@Command(name = "TrainOnAllGpus", description = "Teaches a network on several GPUs at once.")
public final class TrainOnAllGpus implements Callable<Integer> {
  private static final Duration UPLOAD_TIMEOUT = Duration.ofSeconds(60);

  @Mixin private JobOptions options;

  private String replicas = "";

  public static void main(String[] args) {
    System.exit(CommandRunner.run(new TrainOnAllGpus(), args));
  }

  @Override
  public Integer call() throws IOException {
    try (RunClient runs = RunClient.of(options.server())) {
      RunCodeRequest request =
          options
              .request("python3", "-u", "tf_multi_gpu.py")
              .setBundle(runs.uploadFolder(options.jobs(), UPLOAD_TIMEOUT))
              .build();
      RunLines lines = new RunLines(this::read, System.err::println);
      new FollowedRun(runs, lines).run(request);

      int given = lines.reserved().getGpusCount();
      if (lines.exitCode() == 0 && !replicas.equals("training %d replicas".formatted(given))) {
        System.err.printf("%d GPUs were reserved, but the job said '%s'%n", given, replicas);
        return 1;
      }
      return lines.exitCode();
    }
  }

  private void read(String line) {
    System.out.println(line);
    if (line.startsWith("training ")) {
      replicas = line;
    }
  }
}
