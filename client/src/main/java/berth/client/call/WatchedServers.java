package berth.client.call;

import berth.v1.Server;
import berth.v1.WatchServersResponse;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Makes one account of the servers out of any number of streams: what a registry tells anew becomes
 * the difference to what was told before. For one thread.
 */
final class WatchedServers {
  private final Map<String, Server> told = new TreeMap<>();
  // What is to be told once the registry has said all of it; empty for servers that went.
  private final Map<String, Optional<Server>> pending = new LinkedHashMap<>();
  // The servers while they are told from the beginning.
  private Map<String, Server> anew;
  private String revision = "";
  private long heard;
  private boolean toldFirst;

  /** Where the next stream may go on. */
  String revision() {
    return revision;
  }

  /** How many responses were taken. */
  long heard() {
    return heard;
  }

  /** Lets the next stream tell all servers. */
  void beginAnew() {
    revision = "";
  }

  /** Forgets what a stream before left unfinished: the next one goes on from the revision. */
  void beginStream() {
    anew = null;
    pending.clear();
  }

  /** What is to be told to whoever watches, if this makes it complete. */
  Optional<WatchServersResponse> take(WatchServersResponse response) {
    heard++;
    if (response.getReset()) {
      anew = new TreeMap<>();
      pending.clear();
    }
    if (anew != null) {
      response.getRemovedList().forEach(anew::remove);
      response.getServersList().forEach(server -> anew.put(name(server), server));
    } else {
      response.getRemovedList().forEach(name -> pending.put(name, Optional.empty()));
      response.getServersList().forEach(server -> pending.put(name(server), Optional.of(server)));
    }
    if (!response.getComplete()) {
      return Optional.empty();
    }
    if (anew != null) {
      compare();
      anew = null;
    }
    revision = response.getRevision();
    return tell();
  }

  private void compare() {
    for (String name : told.keySet()) {
      if (!anew.containsKey(name)) {
        pending.put(name, Optional.empty());
      }
    }
    anew.forEach((name, server) -> pending.put(name, Optional.of(server)));
  }

  private Optional<WatchServersResponse> tell() {
    WatchServersResponse.Builder news =
        WatchServersResponse.newBuilder().setComplete(true).setRevision(revision);
    pending.forEach(
        (name, server) -> {
          if (server.isPresent()) {
            if (!server.get().equals(told.put(name, server.get()))) {
              news.addServers(server.get());
            }
          } else if (told.remove(name) != null) {
            news.addRemoved(name);
          }
        });
    pending.clear();
    boolean empty = news.getServersCount() + news.getRemovedCount() == 0;
    if (empty && toldFirst) {
      return Optional.empty();
    }
    toldFirst = true;
    return Optional.of(news.build());
  }

  private static String name(Server server) {
    return server.getInfo().getName();
  }
}
