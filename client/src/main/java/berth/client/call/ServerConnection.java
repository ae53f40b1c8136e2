package berth.client.call;

import berth.rpc.Address;
import berth.rpc.RpcChannel;

/** One connection to a {@code berthd}, with the proxies of its services. Any thread may call. */
public final class ServerConnection implements AutoCloseable {
  private final RpcChannel channel;
  private final RunClient runs;
  private final ReservationClient reservations;
  private final ClusterClient clusters;

  /** It connects with its first call. */
  public ServerConnection(Address server) {
    channel = RpcChannel.to(server);
    runs = RunClient.over(channel, server);
    reservations = ReservationClient.over(channel, server);
    clusters = ClusterClient.over(channel, server);
  }

  public RunClient runs() {
    return runs;
  }

  public ReservationClient reservations() {
    return reservations;
  }

  public ClusterClient clusters() {
    return clusters;
  }

  /** Ends what still runs on it. */
  @Override
  public void close() {
    channel.close();
  }
}
