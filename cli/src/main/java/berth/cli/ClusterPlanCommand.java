package berth.cli;

import berth.client.call.RegistryClient;
import berth.client.cluster.ClusterPlan;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.LikelyMistakes;
import berth.client.cluster.Planner;
import berth.client.cluster.TaskName;
import berth.client.spec.GpuServer;
import berth.rpc.Address;
import berth.rpc.ExitCode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code berth cluster plan}. */
@Command(
    name = "plan",
    sortOptions = false,
    customSynopsis = {
      "berth cluster plan [OPTIONS] FILE.yaml",
      "       berth cluster plan --workers N [OPTIONS] SCRIPT [ARGUMENTS]",
    },
    description = {
      "Show where a cluster's tasks would be placed.",
      "",
      "Checks the request and shows the cluster's addresses. Nothing is reserved or started. Takes"
          + " the same file and options as 'berth cluster run'.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster plan mnist.yaml",
      "  berth cluster plan --workers 8 --gpus 1 --pack train.py",
    })
final class ClusterPlanCommand implements Callable<Integer> {
  @Mixin private RegistryOption registry;
  @Mixin private ClusterOptions options;

  @Option(names = "--json", description = "Print the plan as one line of JSON.")
  private boolean json;

  private CommandSpec spec;

  @Spec
  void setSpec(CommandSpec spec) {
    this.spec = spec;
    // So that `train.py --epochs 3` keeps its options.
    spec.parser().stopAtPositional(true);
  }

  @Override
  public Integer call() {
    if (options.helpAsked(spec)) {
      spec.commandLine().usage(spec.commandLine().getOut());
      return ExitCode.OK;
    }
    ClusterRequest request = options.request(spec);
    LikelyMistakes.of(request).forEach(Terminal::note);
    ClusterPlan plan;
    try (RegistryClient client = registry.require()) {
      plan = Planner.place(request, client.servers());
    }
    ClusterSpec addresses = withoutPorts(plan);
    if (json) {
      Terminal.line(ClusterJson.plan(request, plan, addresses));
    } else {
      Terminal.print(text(request, plan, addresses));
    }
    Terminal.note("ports are shown as 0 until they are reserved");
    return ExitCode.OK;
  }

  /** What is known of the addresses before anything is reserved. */
  static ClusterSpec withoutPorts(ClusterPlan plan) {
    Map<TaskName, Address> addresses = new LinkedHashMap<>();
    plan.servers()
        .forEach(
            (TaskName task, GpuServer server) ->
                addresses.put(task, new Address(server.address().host(), 0)));
    return new ClusterSpec(addresses);
  }

  static String text(ClusterRequest request, ClusterPlan plan, ClusterSpec spec) {
    StringBuilder text =
        new StringBuilder(
            ClusterTable.placement(ClusterTable.gpuCounts(request), plan, spec, Integer.MAX_VALUE));
    text.append("\ncluster.json\n").append(spec.json()).append('\n');
    text.append("\ncluster.csv\n").append(spec.csv());
    for (TaskName task : plan.servers().keySet()) {
      text.append("\nTF_CONFIG of ").append(task).append('\n');
      text.append(spec.tfConfig(task)).append('\n');
    }
    return text.toString();
  }
}
