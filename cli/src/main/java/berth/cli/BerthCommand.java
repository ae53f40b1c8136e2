package berth.cli;

import berth.command.Version;
import picocli.AutoComplete.GenerateCompletion;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.ScopeType;
import picocli.CommandLine.Spec;

/** What all subcommands have in common. */
@Command(
    name = "berth",
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    synopsisSubcommandLabel = "COMMAND",
    scope = ScopeType.INHERIT,
    description = "Run code on shared GPU servers.",
    footer = {
      "",
      "Examples:",
      "  berth gpus",
      "  berth run --service tensorflow --gpus 1 train.py",
      "  berth cluster run mnist.yaml",
      "",
      "Exit codes: the program's own, or 125 if Berth failed.",
      "Completion for bash and zsh: source <(berth generate-completion)",
    },
    subcommands = {
      RunCommand.class,
      ClusterCommand.class,
      ClustersCommand.class,
      RunsCommand.class,
      LogsCommand.class,
      AttachCommand.class,
      CancelCommand.class,
      CpCommand.class,
      RmCommand.class,
      ServersCommand.class,
      ServicesCommand.class,
      GpusCommand.class,
      ReserveCommand.class,
      RenewCommand.class,
      ReleaseCommand.class,
      ReservationsCommand.class,
      LockCommand.class,
      ServerCommand.class,
      SuperviseCommand.class,
      GenerateCompletion.class,
    })
final class BerthCommand implements Runnable {
  @Spec private CommandSpec spec;

  @Option(
      names = "--stacktrace",
      scope = ScopeType.INHERIT,
      description = "Print a stack trace when a command fails.")
  private boolean stackTrace;

  @Override
  public void run() {
    throw new ParameterException(spec.commandLine(), "missing command; see 'berth --help'");
  }
}
