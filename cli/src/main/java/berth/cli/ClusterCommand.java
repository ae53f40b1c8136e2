package berth.cli;

import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code berth cluster run|plan|status|logs|attach|cancel}. */
@Command(
    name = "cluster",
    synopsisSubcommandLabel = "COMMAND",
    description = {"Run distributed trainings.", ""},
    subcommands = {
      ClusterRunCommand.class,
      ClusterPlanCommand.class,
      ClusterStatusCommand.class,
      ClusterLogsCommand.class,
      ClusterAttachCommand.class,
      ClusterCancelCommand.class,
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster run mnist.yaml",
      "  berth cluster run -s tensorflow --workers 4 --ps 1 -g 1 train.py",
    })
final class ClusterCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "missing command; see 'berth cluster --help'");
  }
}
