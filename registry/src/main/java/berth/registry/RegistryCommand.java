package berth.registry;

import berth.command.ExitCode;
import berth.command.StackTraceOption;
import berth.command.Termination;
import berth.command.Version;
import berth.rpc.Address;
import berth.rpc.RpcServer;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

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

  @Option(
      names = "--config",
      paramLabel = "FILE",
      description = "YAML file with options; the command line wins over it.")
  private Path config;

  @Option(
      names = "--listen",
      paramLabel = "HOST:PORT",
      defaultValue = "127.0.0.1:" + PORT,
      description = "Address to listen on (default: ${DEFAULT-VALUE}). Port 0 takes any free one.")
  private String listen;

  @Option(
      names = "--insecure",
      description =
          "Allow an address beyond loopback although calls are neither encrypted nor"
              + " authenticated.")
  private boolean insecure;

  @Mixin private StackTraceOption stackTrace;

  @Override
  public Integer call() throws InterruptedException {
    try (Termination termination = Termination.onSignal();
        RpcServer server =
            RpcServer.listenOn(Address.parse(listen, PORT))
                .insecureBeyondLoopback(insecure)
                .start()) {
      log.info("listens on {}", server.address());
      termination.await();
      log.info("stopping");
    }
    return ExitCode.OK;
  }
}
