package berth.client.call;

import berth.client.spec.GpuServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.time.Duration;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/**
 * All servers of a group as they are at every moment, by a watch of its own. Any thread may call.
 */
public final class ServerFeed implements AutoCloseable {
  /**
   * The servers at one moment.
   *
   * @param version grows with every change
   */
  public record Snapshot(long version, List<GpuServer> servers) {}

  private final RegistryClient registry;
  private final Thread thread;
  private final SortedMap<String, GpuServer> servers = new TreeMap<>();
  private long version;
  private BerthException failure;

  public ServerFeed(RegistryClient registry) {
    this.registry = registry;
    this.thread = new Thread(this::watch, "watch-servers");
    thread.setDaemon(true);
    thread.start();
  }

  /**
   * The servers as soon as they are other than in {@code version}, or after {@code atMost} as they
   * are. The first version is 1: whoever knows none says 0.
   *
   * @throws BerthException if the watch has failed, or this thread is interrupted
   */
  public synchronized Snapshot after(long version, Duration atMost) {
    long deadline = System.nanoTime() + atMost.toNanos();
    try {
      long left = atMost.toNanos();
      while (this.version <= version && failure == null && left > 0) {
        TimeUnit.NANOSECONDS.timedWait(this, left);
        left = deadline - System.nanoTime();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new BerthException(Reason.CANCELLED, "interrupted while watching servers", e);
    }
    if (failure != null) {
      throw failure;
    }
    return new Snapshot(this.version, List.copyOf(servers.values()));
  }

  private void watch() {
    try {
      registry.watchServers(ServerFilter.getDefaultInstance(), this::take);
    } catch (BerthException e) {
      synchronized (this) {
        failure = e;
        notifyAll();
      }
    }
  }

  private synchronized void take(WatchServersResponse news) {
    for (Server server : news.getServersList()) {
      servers.put(server.getInfo().getName(), GpuServers.of(server));
    }
    news.getRemovedList().forEach(servers::remove);
    version++;
    notifyAll();
  }

  @Override
  public void close() {
    thread.interrupt();
  }
}
