package berth.client.cluster;

import berth.client.call.Bundle;
import berth.client.call.RegistryClient;
import berth.client.call.ServerConnection;
import berth.client.call.ServerFeed;
import berth.client.call.ThisUser;
import berth.client.spec.GpuServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.StartClusterRequest;
import berth.v1.StartClusterResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Hands a cluster over to one of the servers, which supervises it from then on. */
public final class ClusterSubmission {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);
  private static final Duration UPLOAD_PATIENCE = Duration.ofSeconds(60);

  private final RegistryClient registry;

  public ClusterSubmission(RegistryClient registry) {
    this.registry = registry;
  }

  /**
   * Returns when a server has taken it over.
   *
   * @throws BerthException INVALID if it can never be formed with the servers there are,
   *     ALREADY_EXISTS if one of its name has not ended, UNAVAILABLE if no server takes it
   * @throws IOException if a file of a task cannot be read
   */
  public DetachedCluster submit(ClusterRequest request) throws IOException {
    List<GpuServer> servers;
    try (ServerFeed feed = new ServerFeed(registry)) {
      servers = feed.after(0, TIMEOUT).servers();
    }
    checkPossible(request, servers);
    checkName(request, servers);
    Path folder = Files.createTempDirectory("berth-cluster");
    try {
      ClusterPackage.write(request, folder);
      try (Bundle bundle = new Bundle(folder)) {
        return submit(request, bundle, servers);
      }
    } finally {
      ClusterPackage.delete(folder);
    }
  }

  // Nobody looks at the first minutes of a detached cluster: what can be told now is told now.
  private static void checkPossible(ClusterRequest request, List<GpuServer> servers) {
    try {
      Planner.place(request, servers);
    } catch (BerthException e) {
      if (e.reason() != Reason.EXHAUSTED) {
        throw e;
      }
    }
  }

  private static void checkName(ClusterRequest request, List<GpuServer> servers) {
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      List<CompletableFuture<Optional<String>>> asked =
          servers.stream()
              .map(
                  server ->
                      CompletableFuture.supplyAsync(() -> living(request.name(), server), threads))
              .toList();
      for (CompletableFuture<Optional<String>> answer : asked) {
        answer
            .join()
            .ifPresent(
                known -> {
                  throw new BerthException(
                      Reason.ALREADY_EXISTS,
                      "there is a cluster "
                          + request.name()
                          + " already, "
                          + known
                          + ": cancel it, or choose another name");
                });
      }
    } finally {
      threads.shutdown();
    }
  }

  // One that does not answer cannot be asked; the name is for people, and ids stay different.
  private static Optional<String> living(String name, GpuServer server) {
    try (ServerConnection connection = new ServerConnection(server.address())) {
      return connection.clusters().list(TIMEOUT).getClustersList().stream()
          .filter(cluster -> cluster.getName().equals(name))
          .filter(cluster -> cluster.getPhase() != ClusterPhase.CLUSTER_PHASE_ENDED)
          .findFirst()
          .map(ClusterStatus::getClusterId)
          .map(id -> id + ", which " + server.name() + " supervises");
    } catch (BerthException e) {
      return Optional.empty();
    }
  }

  private static DetachedCluster submit(
      ClusterRequest request, Bundle bundle, List<GpuServer> servers) throws IOException {
    String requestId = UUID.randomUUID().toString();
    List<String> refusals = new ArrayList<>();
    for (GpuServer server : mostMemoryFirst(servers)) {
      try (ServerConnection connection = new ServerConnection(server.address())) {
        StartClusterResponse taken =
            connection
                .clusters()
                .start(
                    StartClusterRequest.newBuilder()
                        .setName(request.name())
                        .setOwner(ThisUser.owner())
                        .setBundle(bundle.upload(connection.runs(), UPLOAD_PATIENCE))
                        .setRequestId(requestId)
                        .build(),
                    UPLOAD_PATIENCE);
        return new DetachedCluster(taken.getClusterId(), request.name(), taken.getServer());
      } catch (BerthException e) {
        boolean elsewhere =
            switch (e.reason()) {
              case UNAVAILABLE, EXHAUSTED, UNSUPPORTED -> true;
              default -> false;
            };
        if (!elsewhere) {
          throw e;
        }
        refusals.add(server.name() + ": " + e.getMessage());
      }
    }
    throw new BerthException(
        Reason.UNAVAILABLE,
        refusals.isEmpty()
            ? "no server is registered that could supervise the cluster"
            : "no server supervises the cluster: " + String.join("; ", refusals));
  }

  private static List<GpuServer> mostMemoryFirst(List<GpuServer> servers) {
    return servers.stream()
        .sorted(
            Comparator.comparing(GpuServer::draining)
                .thenComparing(server -> -server.freeMemoryBytes()))
        .toList();
  }
}
