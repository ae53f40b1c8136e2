package berth.e2e.registry;

import berth.client.Berth;
import berth.client.spec.GpuServer;
import berth.rpc.BerthException;

/** Prints the servers of the registry that it finds. */
final class ServerNames {
  private ServerNames() {}

  public static void main(String[] args) {
    try (Berth berth = Berth.discover()) {
      System.out.println("the servers: " + berth.servers().stream().map(GpuServer::name).toList());
    } catch (BerthException e) {
      System.err.println(e.reason() + ": " + e.getMessage());
    }
  }
}
