package berth.examples;

import berth.command.GpuCountConverter;
import berth.rpc.Address;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Owner;
import berth.v1.RunCodeRequest;
import berth.v1.WaitTime;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** What all examples let you choose; the names are those of {@code berth run}. */
final class JobOptions {
  private static final int PORT = 18812;

  @Option(
      names = "--server",
      defaultValue = "${BERTH_SERVER:-127.0.0.1:18812}",
      description = "The server that it runs on (default: BERTH_SERVER, else 127.0.0.1:18812).")
  private String server;

  @Option(
      names = "--service",
      defaultValue = "tensorflow",
      description = "The service that it runs in (default: tensorflow).")
  private String service;

  @Option(names = "--image", description = "The image that it runs in, in place of a service.")
  private String image;

  @Option(
      names = "--gpus",
      defaultValue = "1",
      converter = GpuCountConverter.class,
      description = "Number of GPUs, or 'all' (default: 1).")
  private int gpus;

  @Option(names = "--gpu", split = ",", description = "Exactly these GPUs, by index or UUID.")
  private List<String> ids = new ArrayList<>();

  @Option(names = "--env", description = "A variable of yours to pass on; may be repeated.")
  private List<String> variables = new ArrayList<>();

  @Option(
      names = "--jobs",
      defaultValue = "examples/jobs",
      description = "The folder with the Python programs (default: examples/jobs).")
  private Path jobs;

  @Parameters(description = "Arguments of the Python program.")
  private List<String> arguments = new ArrayList<>();

  Address server() {
    return Address.parse(server, PORT);
  }

  Path jobs() {
    return jobs;
  }

  /** A request that has all but the code: where it runs, on which GPUs, and the arguments. */
  RunCodeRequest.Builder request(String... command) {
    RunCodeRequest.Builder request =
        RunCodeRequest.newBuilder()
            .setGpus(gpus())
            .setWait(WaitTime.newBuilder().setForever(true))
            .setOwner(Owner.newBuilder().setUser(System.getProperty("user.name")))
            .addAllCommand(List.of(command))
            .addAllCommand(arguments);
    if (image == null) {
      request.setService(service);
    } else {
      request.setImage(image);
    }
    for (String name : variables) {
      request.putEnv(name, System.getenv(name));
    }
    return request;
  }

  private GpuRequest gpus() {
    return ids.isEmpty()
        ? GpuRequest.newBuilder().setCount(gpus).build()
        : GpuRequest.newBuilder().setExactly(GpuSet.newBuilder().addAllIds(ids)).build();
  }
}
