package berth.client.cluster;

import berth.client.RegistryClient;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/** Placeholder, replaced in the next commit. */
public final class Cluster implements AutoCloseable {
  private Cluster() {}

  public static Cluster start(
      RegistryClient registry, ClusterRequest request, Consumer<ClusterEvent> listener) {
    throw new UnsupportedOperationException();
  }

  public CompletableFuture<ClusterSpec> formed() {
    throw new UnsupportedOperationException();
  }

  public CompletableFuture<Void> started() {
    throw new UnsupportedOperationException();
  }

  public CompletableFuture<ClusterResult> ended() {
    throw new UnsupportedOperationException();
  }

  public ClusterResult await() {
    throw new UnsupportedOperationException();
  }

  public void stop() {}

  public void kill() {}

  @Override
  public void close() {}
}
