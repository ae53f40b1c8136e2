package berth.cli;

import berth.rpc.ExitCode;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Parameters;

/** {@code berth rm}. */
@Command(
    name = "rm",
    sortOptions = false,
    description = {
      "Remove ended runs with their output and files.",
      "",
      "Servers also remove ended runs by themselves after a time set by the administrator.",
      "",
    },
    footer = {"", "Examples:", "  berth rm run-6b1f run-77"})
final class RmCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Parameters(
      arity = "1..*",
      paramLabel = "RUN",
      description = "Run IDs, unique prefixes, or names of your own runs.")
  private List<String> runs;

  @Override
  public Integer call() {
    try (Servers servers = server.servers()) {
      FoundRun.forEach(
          servers, runs, run -> run.client().removeRun(run.id(), ServerOption.TIMEOUT));
    }
    return ExitCode.OK;
  }
}
