package berth.cli;

import berth.client.call.RegistryClient;
import berth.client.call.RunClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.ListServicesResponse;
import berth.v1.RuntimeInfo;
import berth.v1.ServerFilter;
import berth.v1.Service;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code berth services}. */
@Command(
    name = "services",
    sortOptions = false,
    description = {
      "List services for 'berth run --service'.",
      "",
      "With --server: those of a server and how it runs code. Else: all services of the registry"
          + " and the servers that have them.",
      "",
    },
    footer = {"", "Examples:", "  berth services", "  berth services --server gpu01"})
final class ServicesCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description =
          "Print JSON lines: ListServicesResponse with --server, else Server; with --watch,"
              + " WatchServersResponse.")
  private boolean json;

  @Option(names = "--watch", description = "Refresh until Ctrl-C; needs a registry.")
  private boolean watch;

  @Override
  public Integer call() {
    try (Servers servers = server.servers()) {
      if (servers.registry().isPresent()) {
        showRegistered(servers, servers.registry().get());
      } else if (watch) {
        throw new BerthException(
            Reason.INVALID, "--watch requires a registry and cannot be combined with --server");
      } else {
        showGiven(servers);
      }
    }
    return ExitCode.OK;
  }

  private void showRegistered(Servers servers, RegistryClient registry) {
    ServerFilter all = ServerFilter.getDefaultInstance();
    if (watch && json) {
      ServerListWatch.printJson(registry, all);
    } else if (watch) {
      ServerListWatch.show(registry, all, ServerTable::services);
    } else if (json) {
      servers.list(all).stream()
          .filter(one -> one.getInfo().getServicesCount() > 0)
          .forEach(one -> Terminal.line(JsonOutput.line(one)));
    } else {
      Terminal.print(ServerTable.services(servers.list(all)));
    }
  }

  private void showGiven(Servers servers) {
    SeparatedOutput blocks = new SeparatedOutput();
    servers.ask(
        ServerFilter.getDefaultInstance(),
        ServicesCommand::ask,
        (who, response) -> {
          if (json) {
            Terminal.line(JsonOutput.line(response));
          } else {
            blocks.print(render(who.getInfo().getAddress(), response));
          }
        });
  }

  private static ListServicesResponse ask(Address address) {
    try (RunClient client = RunClient.of(address)) {
      return client.listServices(ServerOption.TIMEOUT);
    }
  }

  static String render(String server, ListServicesResponse response) {
    StringBuilder text = new StringBuilder(server).append(": ").append(runtime(response));
    if (response.getServicesCount() == 0) {
      return text.append(", no services\n").toString();
    }
    List<List<String>> rows = new ArrayList<>();
    rows.add(List.of("SERVICE", "IMAGE", "INTERPRETER", "DESCRIPTION"));
    for (Service service : response.getServicesList()) {
      List<String> names = new ArrayList<>(List.of(service.getName()));
      names.addAll(service.getAliasesList());
      rows.add(
          List.of(
              PlainText.clean(String.join(", ", names)),
              PlainText.clean(service.getImage()),
              PlainText.clean(String.join(" ", service.getInterpreterList())),
              PlainText.clean(service.getDescription())));
    }
    return text.append('\n').append(Columns.render(rows)).toString();
  }

  private static String runtime(ListServicesResponse response) {
    RuntimeInfo runtime = response.getRuntime();
    List<String> facts = new ArrayList<>();
    if (!runtime.getUsable()) {
      facts.add("cannot run anything now");
    }
    if (runtime.getName().equals("process")) {
      facts.add("plain processes, not isolated");
    }
    if (!runtime.getEngine().isEmpty()) {
      facts.add(PlainText.clean(runtime.getEngine()));
    }
    if (!runtime.getGpuAccess().isEmpty()) {
      facts.add("GPUs: " + PlainText.clean(runtime.getGpuAccess()));
    }
    if (!runtime.getToolkit().isEmpty()) {
      facts.add(PlainText.clean(runtime.getToolkit()));
    }
    return String.join(", ", facts);
  }
}
