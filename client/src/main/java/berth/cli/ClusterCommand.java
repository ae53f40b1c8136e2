package berth.cli;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth cluster run|plan|status|logs|attach|cancel}. */
@Command(
    name = "cluster",
    synopsisSubcommandLabel = "COMMAND",
    description = {
      "Runs a program as several tasks on several servers, which know each other's addresses.",
      ""
    },
    subcommands = {
      ClusterRunCommand.class,
      ClusterPlanCommand.class,
      ClusterStatusCommand.class,
      ClusterLogsCommand.class,
      ClusterAttachCommand.class,
      ClusterCancelCommand.class,
    })
final class ClusterCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "run, plan, status, logs, attach or cancel?");
  }
}
