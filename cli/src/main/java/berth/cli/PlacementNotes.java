package berth.cli;

import berth.client.call.PlacementListener;
import berth.rpc.BerthException;
import berth.v1.Server;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Says where a request goes. Refusals are said when another server takes it: if none does, the
 * failure has them all.
 */
final class PlacementNotes implements PlacementListener {
  private final Consumer<String> notes;
  private final Runnable onPassed;
  // The servers by what they said, which is often the same.
  private final Map<String, Set<String>> refusals = new LinkedHashMap<>();

  /**
   * @param onPassed is called when a server has not taken it, before the next is asked
   */
  PlacementNotes(Consumer<String> notes, Runnable onPassed) {
    this.notes = notes;
    this.onPassed = onPassed;
  }

  @Override
  public void placed(Server server, boolean waits) {
    refusals.forEach(
        (why, names) ->
            notes.accept(
                String.join(", ", names)
                    + (names.size() == 1 ? " does" : " do")
                    + " not take it: "
                    + why));
    refusals.clear();
    String name = Servers.name(server);
    notes.accept(
        waits
            ? "no server has room now; queued at " + name
            : name + " takes it (" + ServerTable.freeGpus(server) + ")");
  }

  @Override
  public void passed(Server server, BerthException why) {
    onPassed.run();
    refusals
        .computeIfAbsent(why.getMessage(), message -> new LinkedHashSet<>())
        .add(Servers.name(server));
  }
}
