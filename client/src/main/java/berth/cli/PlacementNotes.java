package berth.cli;

import berth.client.PlacementListener;
import berth.rpc.BerthException;
import berth.v1.Server;
import java.util.function.Consumer;

/**
 * Says where a request goes.
 *
 * @param onPassed is called when a server has not taken it, before the next is asked
 */
record PlacementNotes(Consumer<String> notes, Runnable onPassed) implements PlacementListener {
  @Override
  public void placed(Server server, boolean waits) {
    String name = Servers.name(server);
    notes.accept(
        waits
            ? "nobody can take it now; waiting at " + name
            : name + " takes it (" + ServerTable.freeGpus(server) + ")");
  }

  @Override
  public void passed(Server server, BerthException why) {
    onPassed.run();
    notes.accept(Servers.name(server) + " does not take it: " + why.getMessage());
  }
}
