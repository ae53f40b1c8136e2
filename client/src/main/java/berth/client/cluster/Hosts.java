package berth.client.cluster;

import berth.client.call.ReservationClient;
import berth.client.call.RunClient;
import berth.client.call.ServerConnection;
import berth.client.spec.GpuServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.ListServicesResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** The connections of one cluster to its servers, one each. Any thread may call. */
final class Hosts implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);
  private static final Duration ASK_AGAIN = Duration.ofMillis(100);

  /** One server. */
  static final class Host implements AutoCloseable {
    private final ServerConnection connection;
    private ListServicesResponse services;

    private Host(GpuServer server) {
      this.connection = new ServerConnection(server.address());
    }

    RunClient runs() {
      return connection.runs();
    }

    ReservationClient reservations() {
      return connection.reservations();
    }

    /** What its administrator has named, asked once. */
    synchronized ListServicesResponse services() {
      if (services == null) {
        services = runs().listServices(TIMEOUT);
      }
      return services;
    }

    /**
     * Has it forget a run that has ended.
     *
     * @throws BerthException if it does not
     */
    void remove(String runId) {
      long begun = System.nanoTime();
      while (true) {
        try {
          runs().removeRun(runId, TIMEOUT);
          return;
        } catch (BerthException e) {
          // The last things of a run go in the moment after its end.
          if (e.reason() != Reason.CONFLICT || System.nanoTime() - begun > TIMEOUT.toNanos()) {
            throw e;
          }
        }
        try {
          TimeUnit.NANOSECONDS.sleep(ASK_AGAIN.toNanos());
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw new BerthException(Reason.CANCELLED, "interrupted while removing " + runId, e);
        }
      }
    }

    @Override
    public void close() {
      connection.close();
    }
  }

  private final Map<String, Host> hosts = new ConcurrentHashMap<>();

  Host of(GpuServer server) {
    // A server that came back elsewhere is another one.
    return hosts.computeIfAbsent(server.name() + " " + server.address(), key -> new Host(server));
  }

  @Override
  public void close() {
    hosts.values().forEach(Host::close);
  }
}
