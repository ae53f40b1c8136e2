package berth.server;

import berth.command.DaemonOptions;
import berth.command.HttpOptions;
import berth.command.Version;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.Reason;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of {@code berthd}. */
@Command(
    name = "berthd",
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    sortOptions = false,
    description =
        "The Berth server daemon: monitors and reserves the GPUs of this machine and runs code on"
            + " them.",
    footer = {
      "",
      "Every option except --config, --stacktrace, --help and --version can be set in the file, for"
          + " example 'listen: 127.0.0.1:18812'.",
      "",
      "Examples:",
      "  berthd --config /etc/berth/berthd.yaml",
      "  berthd --simulate-gpus 4 --runtime process --registry none",
      "",
      "Durations: 500ms, 30s, 10m, 1h30m, 2d.",
    })
final class BerthdCommand implements Callable<Integer> {
  private static final int PORT = 18812;
  private static final int MAX_CONNECTIONS = 4000;
  private static final int HTTP_PORT = 18882;

  @Mixin final DaemonOptions daemon = new DaemonOptions(PORT, MAX_CONNECTIONS);

  @Mixin final HttpOptions http = new HttpOptions(HTTP_PORT);

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Server name (default: the host name).")
  private Optional<String> name = Optional.empty();

  @Mixin final GpuMonitorOptions gpus = new GpuMonitorOptions();

  @Mixin final ReservationOptions reservations = new ReservationOptions();

  @Mixin final RunOptions runs = new RunOptions();

  @Mixin final PresenceOptions presence = new PresenceOptions();

  @Override
  public Integer call() throws InterruptedException {
    check();
    new Berthd(this).serve();
    return ExitCode.OK;
  }

  String serverName() {
    return name.orElseGet(DaemonOptions::hostName);
  }

  /**
   * Refuses what no server can be started with.
   *
   * @throws BerthException INVALID
   */
  void check() {
    check(
        "--name",
        serverName().matches("[A-Za-z0-9][A-Za-z0-9._-]*"),
        "must consist of letters, digits, dots and dashes");
    presence.check();
    gpus.check();
    reservations.check();
  }

  static void check(String option, boolean holds, String otherwise) {
    if (!holds) {
      throw new BerthException(Reason.INVALID, option + " " + otherwise);
    }
  }
}
