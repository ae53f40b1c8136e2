package berth.registry;

import berth.command.DaemonOptions;
import berth.command.ExitCode;
import berth.command.Termination;
import berth.command.Version;
import berth.rpc.RpcServer;
import java.util.concurrent.Callable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** The options of {@code berth-registry}, and the wiring of its parts. */
@Command(
    name = "berth-registry",
    mixinStandardHelpOptions = true,
    versionProvider = Version.class,
    sortOptions = false,
    description = {
      "The meeting point of GPU servers and their users. Runs until SIGTERM.",
      "This version answers health checks and reflection only; servers cannot register yet.",
    },
    footer = {
      "",
      "Every option but --config, --stacktrace, --help and --version may also stand in the file, as"
          + " 'listen: 127.0.0.1:18811'.",
    })
final class RegistryCommand implements Callable<Integer> {
  private static final Logger log = LoggerFactory.getLogger("berth-registry");
  private static final int PORT = 18811;

  @Mixin private final DaemonOptions daemon = new DaemonOptions(PORT);

  @Override
  public Integer call() throws InterruptedException {
    try (Termination termination = Termination.onSignal();
        RpcServer server =
            RpcServer.listenOn(daemon.address())
                .insecureBeyondLoopback(daemon.insecure())
                .start()) {
      log.info("listens on {}", server.address());
      termination.await();
      log.info("stopping");
    }
    return ExitCode.OK;
  }
}
