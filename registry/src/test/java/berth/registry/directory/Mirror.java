package berth.registry.directory;

import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.util.Map;
import java.util.TreeMap;

/** What somebody knows who only watches. */
final class Mirror {
  private final ServerWatch watch;
  private final Map<String, Server> servers = new TreeMap<>();
  private String revision = "";
  private int resets;

  Mirror(Roster roster) {
    watch = new ServerWatch(roster, ServerFilter.getDefaultInstance(), "");
  }

  /** What it knows now. */
  Map<String, Server> read() {
    for (WatchServersResponse response; (response = watch.next()) != null; ) {
      if (response.getReset()) {
        resets++;
        servers.clear();
      }
      response.getServersList().forEach(server -> servers.put(server.getInfo().getName(), server));
      response.getRemovedList().forEach(servers::remove);
      if (response.getComplete()) {
        revision = response.getRevision();
      }
    }
    return servers;
  }

  /** Where it could go on. */
  String revision() {
    return revision;
  }

  /** How often it had to begin anew, the first time included. */
  int resets() {
    return resets;
  }

  /** What a roster has, to compare. */
  static Map<String, Server> of(Roster roster) {
    Map<String, Server> servers = new TreeMap<>();
    roster.all().forEach(listed -> servers.put(listed.name(), listed.server()));
    return servers;
  }
}
