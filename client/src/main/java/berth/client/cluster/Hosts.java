package berth.client.cluster;

import berth.client.GpuServer;
import berth.client.ReservationClient;
import berth.client.RunClient;
import berth.client.ServerConnection;
import berth.v1.ListServicesResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The connections of one cluster to its servers, one each. Any thread may call. */
final class Hosts implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

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
