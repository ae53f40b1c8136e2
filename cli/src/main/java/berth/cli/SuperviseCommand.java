package berth.cli;

import berth.client.call.RegistryClient;
import berth.client.cluster.SupervisedCluster;
import berth.rpc.ExitCode;
import berth.rpc.PlainText;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/** {@code berth supervise}, which {@code berthd} starts for each cluster that it was given. */
@Command(
    name = "supervise",
    hidden = true,
    description = {
      "Supervise a detached cluster (started by berthd).",
      "",
    })
final class SuperviseCommand implements Callable<Integer> {
  @Mixin private RegistryOption registry;

  @Parameters(paramLabel = "FOLDER", description = "Folder of the cluster.")
  private Path folder;

  @Override
  public Integer call() throws IOException, InterruptedException {
    try (RegistryClient client = registry.require()) {
      new SupervisedCluster(folder).carryOut(client, SuperviseCommand::log);
    }
    return ExitCode.OK;
  }

  private static void log(String text) {
    Terminal.line(Instant.now().truncatedTo(ChronoUnit.MILLIS) + " " + PlainText.escape(text));
  }
}
