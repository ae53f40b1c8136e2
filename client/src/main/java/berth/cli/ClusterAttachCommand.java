package berth.cli;

import berth.client.ServerConnection;
import berth.client.cluster.ClusterStates;
import berth.client.cluster.ClusterWatch;
import berth.command.ExitCode;
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
      "Shows what happens to a cluster and what its tasks print from now on, until it ends, as"
          + " 'berth cluster run' does.",
      "",
      "Ctrl-C leaves the cluster alone; 'berth cluster cancel' ends it. What was printed before is"
          + " in 'berth cluster logs'.",
      "",
    },
    footer = {
      "",
      "Example: berth cluster attach mnist",
      "Exit codes: 0 if the training succeeded, else that of the first task that failed; 124 if its"
          + " time was over, 125 if Berth failed; 0 after Ctrl-C.",
    })
final class ClusterAttachCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = "--json",
      description =
          "Print each event as a line of JSON, with its type in 'event' and output in 'data'; the"
              + " last one is the result.")
  private boolean json;

  @Parameters(
      paramLabel = "NAME",
      description = "Which, by its name, or by its id or the beginning of that.")
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
    notes.accept("left " + found.name() + "; it goes on");
    System.exit(ExitCode.OK);
  }

  private static void note(String text) {
    Terminal.note(text);
  }
}
