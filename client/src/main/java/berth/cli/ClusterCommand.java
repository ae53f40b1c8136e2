package berth.cli;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth cluster run|plan}. */
@Command(
    name = "cluster",
    synopsisSubcommandLabel = "COMMAND",
    description = {
      "Runs a program as several tasks on several servers, which know each other's addresses.",
      ""
    },
    subcommands = {ClusterRunCommand.class, ClusterPlanCommand.class})
final class ClusterCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "run or plan?");
  }
}
