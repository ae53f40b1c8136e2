package berth.examples;

import berth.client.call.FollowedRun;
import berth.client.call.GpuClient;
import berth.client.call.RunClient;
import berth.client.call.RunLines;
import berth.command.CommandRunner;
import berth.v1.Gpu;
import berth.v1.GpuReport;
import berth.v1.ReservedGpu;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Asks a server for its GPUs, and a job on it for those that it sees. */
@Command(name = "QueryDevices", description = "Shows the GPUs of a server, and those of a job.")
public final class QueryDevices implements Callable<Integer> {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  @Mixin private JobOptions options;

  public static void main(String[] args) {
    System.exit(CommandRunner.run(new QueryDevices(), args));
  }

  @Override
  public Integer call() throws IOException {
    // One small file needs no bundle: it is sent with the request.
    String program = "tf_devices.py";
    Source source =
        Source.newBuilder()
            .setFileName(program)
            .setContent(ByteString.copyFrom(Files.readAllBytes(options.jobs().resolve(program))))
            .addInterpreter("python3")
            .build();
    RunCodeRequest request = options.request().setSource(source).build();
    RunLines job =
        new RunLines(line -> System.out.println("the job: " + line), System.err::println);

    try (RunClient runs = RunClient.of(options.server())) {
      new FollowedRun(runs, job).run(request);
    }
    try (GpuClient gpus = GpuClient.of(options.server())) {
      show(gpus.listGpus(TIMEOUT).getReport(), job);
    }
    return job.exitCode();
  }

  private static void show(GpuReport report, RunLines job) {
    Set<String> ofTheJob =
        job.reserved().getGpusList().stream().map(ReservedGpu::getUuid).collect(Collectors.toSet());
    for (Gpu gpu : report.getGpusList()) {
      System.out.printf(
          "%s: [%d] %s%s%n",
          report.getServer(),
          gpu.getIndex(),
          gpu.getName(),
          ofTheJob.contains(gpu.getUuid()) ? ", which the job had" : "");
    }
  }
}
