package berth.cli;

import berth.client.call.ServerConnection;
import berth.client.cluster.ClusterStates;
import berth.client.cluster.ClusterWatch;
import berth.rpc.ExitCode;
import berth.v1.ClusterStatus;
import java.io.UncheckedIOException;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth cluster attach}. */
@Command(
    name = "attach",
    sortOptions = false,
    description = {
      "Follow a detached cluster until it ends.",
      "",
      "Ctrl-C detaches; 'berth cluster cancel' stops the cluster. 'berth cluster logs' shows"
          + " earlier output.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster attach mnist",
      "Exit codes: 0 on success or after Ctrl-C, else that of the first task that failed; 124 on a"
          + " time limit, 125 if Berth failed.",
    })
final class ClusterAttachCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description =
          "Print events as JSON lines: type in 'event', output in 'data'; the last line is the"
              + " result.")
  private boolean json;

  @Parameters(paramLabel = "NAME", description = "Cluster name, ID or unique ID prefix.")
  private String name;

  @Override
  public Integer call() {
    try (Servers servers = server.servers();
        FoundCluster found = FoundCluster.find(servers, name)) {
      AtomicReference<Consumer<String>> notes = new AtomicReference<>(ClusterAttachCommand::note);
      Signals.handle(signal -> leave(found, notes.get()));
      ClusterStatus begun = found.begun(ClusterAttachCommand::note);
      ClusterView view =
          ClusterView.ofThisProcess(
              json ? RunView.Detail.JSON : RunView.Detail.ALL, ClusterStates.gpuCounts(begun));
      // It may redraw a line from here on, and knows how to write between.
      notes.set(view::note);
      return follow(found, view);
    } catch (UncheckedIOException e) {
      RunView.checkReaderHasGone(e);
      return ExitCode.OK;
    }
  }

  /** Returns what to exit with. */
  static int follow(FoundCluster found, ClusterView view) {
    try (ClusterWatch watch =
        new ClusterWatch(found.client(), found.id(), ServerConnection::new, view.whileRead())) {
      ClusterStatus last = watch.attach();
      view.ended(ClusterStates.result(last), last.getExitCode());
      return last.getExitCode();
    }
  }

  private static void leave(FoundCluster found, Consumer<String> notes) {
    notes.accept("detached from " + found.name() + "; it continues");
    System.exit(ExitCode.OK);
  }

  private static void note(String text) {
    Terminal.note(text);
  }
}
