package berth.registry;

import berth.command.DaemonOptions;
import berth.command.ExitCode;
import berth.command.Termination;
import berth.command.Version;
import berth.discovery.Discovery;
import berth.registry.discovery.DiscoveryResponder;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import java.util.Optional;
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

  @Mixin private final DaemonOptions daemon = new DaemonOptions(PORT);

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description = "Name of this registry as people see it (default: the host name).")
  private Optional<String> name = Optional.empty();

  @Option(
      names = "--discovery-port",
      paramLabel = "PORT",
      defaultValue = "" + Discovery.PORT,
      description =
          "UDP port on which to answer those who look for a registry on the local network, or on"
              + " this machine if the registry listens on loopback (default: ${DEFAULT-VALUE})."
              + " 0: answer nobody.")
  private int discoveryPort;

  @Override
  public Integer call() throws InterruptedException {
    try (Termination termination = Termination.onSignal();
        RpcServer server =
            RpcServer.listenOn(daemon.address()).insecureBeyondLoopback(daemon.insecure()).start();
        DiscoveryResponder discovery = answerQueries(server.address())) {
      if (discovery != null) {
        log.info("answers queries on UDP {}", discovery.address());
      }
      log.info("listens on {}", server.address());
      termination.await();
      log.info("stopping");
    }
    return ExitCode.OK;
  }

  /** Returns null if this registry is not to be found by UDP, or cannot be. */
  private DiscoveryResponder answerQueries(Address registry) {
    if (discoveryPort == 0) {
      return null;
    }
    Address queries = new Address(registry.host(), discoveryPort);
    String shownName = name.orElseGet(DaemonOptions::hostName);
    try {
      return DiscoveryResponder.listenOn(queries, registry.port(), shownName);
    } catch (BerthException e) {
      if (e.reason() != Reason.UNAVAILABLE) {
        throw e;
      }
      log.warn("nobody can find this registry by UDP: {}", e.getMessage());
      return null;
    }
  }
}
