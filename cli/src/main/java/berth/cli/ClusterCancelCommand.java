package berth.cli;

import berth.client.call.FollowedCluster;
import berth.client.call.ThisUser;
import berth.client.cluster.ClusterStates;
import berth.rpc.BerthException;
import berth.rpc.ExitCode;
import berth.rpc.PlainText;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** {@code berth cluster cancel}. */
@Command(
    name = "cancel",
    sortOptions = false,
    description = {
      "Cancel detached clusters.",
      "",
      "Waits until they have released everything. Tasks get SIGTERM, and SIGKILL after their grace"
          + " period. Also stops tasks that an ended cluster has kept running.",
      "",
    },
    footer = {
      "",
      "Examples:",
      "  berth cluster cancel mnist",
      "  berth cluster cancel --force mnist c-5f2a",
    })
final class ClusterCancelCommand implements Callable<Integer> {
  @Mixin private ServerOption server;

  @Option(
      names = {"-f", "--force"},
      description = "Send SIGKILL immediately.")
  private boolean force;

  @Option(names = "--no-wait", description = "Return without waiting for the clusters to end.")
  private boolean noWait;

  @Parameters(
      arity = "1..*",
      paramLabel = "NAME",
      description = "Cluster names, IDs or unique ID prefixes.")
  private List<String> names;

  @Override
  public Integer call() {
    Progress progress = new Progress(System.err, Terminal.showsErrors());
    List<FoundCluster> cancelled = new ArrayList<>();
    List<BerthException> failures = new ArrayList<>();
    try (Servers servers = server.servers()) {
      // All at once: none of them shall wait for another's grace.
      for (String name : names) {
        attempt(failures, () -> cancelled.add(cancel(servers, name)));
      }
      for (FoundCluster found : cancelled) {
        if (noWait) {
          progress.note(named(found.cluster()) + " is being stopped");
        } else {
          attempt(failures, () -> await(found, progress));
        }
      }
    } finally {
      cancelled.forEach(FoundCluster::close);
    }
    if (failures.isEmpty()) {
      return ExitCode.OK;
    }
    BerthException last = failures.remove(failures.size() - 1);
    failures.forEach(failure -> progress.note(failure.getMessage()));
    throw last;
  }

  private static void attempt(List<BerthException> failures, Runnable step) {
    try {
      step.run();
    } catch (BerthException e) {
      // The others are cancelled all the same.
      failures.add(e);
    }
  }

  private FoundCluster cancel(Servers servers, String name) {
    FoundCluster found = FoundCluster.find(servers, name);
    try {
      found
          .client()
          .cancel(
              CancelClusterRequest.newBuilder()
                  .setClusterId(found.id())
                  .setBy(ThisUser.owner())
                  .setForce(force)
                  .build(),
              ServerOption.TIMEOUT);
      return found;
    } catch (BerthException e) {
      found.close();
      throw e;
    }
  }

  private static void await(FoundCluster found, Progress progress) {
    FollowedCluster.Watcher watcher =
        new FollowedCluster.Watcher() {
          @Override
          public void changed(ClusterStatus status) {
            if (!ClusterStates.hasEnded(status)) {
              progress.show(stopping(status));
            }
          }

          @Override
          public void lost(BerthException why) {
            progress.note(why.getMessage() + "; trying again");
          }
        };
    ClusterStatus last = new FollowedCluster(found.client(), watcher).follow(found.id());
    progress.erase();
    progress.note(named(last) + " has ended: " + ClustersTable.state(last));
  }

  private static String named(ClusterStatus status) {
    return PlainText.clean(status.getName() + " (" + status.getClusterId() + ")");
  }

  private static String stopping(ClusterStatus status) {
    long running =
        status.getTasksList().stream()
            .flatMap(task -> ClusterStates.last(task).stream())
            .filter(ClusterStates::runs)
            .count();
    return PlainText.clean(status.getName())
        + " is being stopped"
        + (running == 0 ? "" : ": " + running + (running == 1 ? " task runs" : " tasks run"));
  }
}
