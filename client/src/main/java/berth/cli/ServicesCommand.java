package berth.cli;

import berth.client.RunClient;
import berth.command.ExitCode;
import berth.v1.ListServicesResponse;
import berth.v1.RuntimeInfo;
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
      "Shows the services of a server, the names that 'berth run --service' takes, and how it runs"
          + " code.",
      "",
    },
    footer = {"", "Example: berth services"})
final class ServicesCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description = "Print the response as a line of JSON (ListServicesResponse).")
  private boolean json;

  @Override
  public Integer call() {
    try (RunClient client = server.runs()) {
      ListServicesResponse response = client.listServices(ServerOption.TIMEOUT);
      System.out.print(
          json ? Json.line(response) + "\n" : render(server.address().toString(), response));
    }
    return ExitCode.OK;
  }

  static String render(String server, ListServicesResponse response) {
    StringBuilder text = new StringBuilder(server).append(": ").append(runtime(response));
    if (response.getServicesCount() == 0) {
      return text.append(", no services\n").toString();
    }
    List<List<String>> rows = new ArrayList<>();
    rows.add(List.of("SERVICE", "IMAGE", "RUNS SOURCES WITH", "DESCRIPTION"));
    for (Service service : response.getServicesList()) {
      List<String> names = new ArrayList<>(List.of(service.getName()));
      names.addAll(service.getAliasesList());
      rows.add(
          List.of(
              Terminal.clean(String.join(", ", names)),
              Terminal.clean(service.getImage()),
              Terminal.clean(String.join(" ", service.getInterpreterList())),
              Terminal.clean(service.getDescription())));
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
      facts.add(Terminal.clean(runtime.getEngine()));
    }
    if (!runtime.getGpuAccess().isEmpty()) {
      facts.add("GPUs: " + Terminal.clean(runtime.getGpuAccess()));
    }
    return String.join(", ", facts);
  }
}
