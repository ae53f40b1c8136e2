package berth.cli;

import berth.client.call.GpuClient;
import berth.client.call.ManyServers;
import berth.client.call.RegistryClient;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.rpc.Reason;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchGpusResponse;
import berth.v1.WatchServersResponse;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * {@code berth gpus --watch}: follows several servers at once, one thread each, and prints from one
 * thread. Servers of a registry are followed from when they come until they go.
 */
final class GpuWatch implements AutoCloseable {
  private static final long RECONNECT_SECONDS = 1;

  private sealed interface News {}

  private record Response(Address server, WatchGpusResponse response) implements News {}

  /** A stream ended, that of a server or, without one, that of the registry. */
  private record Ended(Address server, BerthException why) implements News {}

  private record Changed(WatchServersResponse servers) implements News {}

  private final Servers servers;
  private final ServerFilter filter;
  private final Map<Address, GpuClient> clients = new LinkedHashMap<>();
  private final Map<String, Address> registered = new HashMap<>();

  // Bounded, so that a terminal that is stopped slows the stream down to the server, which then
  // skips samples.
  private final LinkedBlockingQueue<News> news = new LinkedBlockingQueue<>(16);
  private volatile boolean closed;

  GpuWatch(Servers servers, ServerFilter filter) {
    this.servers = servers;
    this.filter = filter;
  }

  @Override
  public void close() {
    closed = true;
    clients.values().forEach(GpuClient::close);
  }

  /** Prints every response as a line of JSON, until a server that was given is lost. */
  int printJson() throws InterruptedException {
    begin(false);
    while (true) {
      News next = news.take();
      if (next instanceof Response response) {
        Terminal.line(JsonOutput.line(response.response));
      } else if (next instanceof Ended ended) {
        lost(ended);
      } else if (next instanceof Changed changed) {
        change(changed.servers, new LinkedHashMap<>());
      }
      Screen.endIfNobodyReads();
    }
  }

  /**
   * Shows the newest sample of all servers: in place on a terminal, else one below the other until
   * a server that was given is lost.
   */
  int show(Terminal terminal) throws InterruptedException {
    Screen screen = new Screen(terminal);
    begin(screen.redraws());
    GpuTable table = new GpuTable(terminal.colours());
    Map<Address, String> parts = new LinkedHashMap<>();
    clients.keySet().forEach(server -> parts.put(server, waitingFor(server)));
    while (true) {
      News next = news.take();
      if (next instanceof Response response) {
        if (!response.response.hasReport() || !clients.containsKey(response.server)) {
          continue;
        }
        parts.put(response.server, table.render(response.server, response.response.getReport()));
        screen.show(
            screen.redraws() ? String.join("\n", parts.values()) : parts.get(response.server));
      } else if (next instanceof Ended ended) {
        if (!screen.redraws() || ended.server == null) {
          lost(ended);
        } else if (clients.containsKey(ended.server)) {
          parts.put(ended.server, PlainText.clean(ended.why.getMessage()) + "; trying again\n");
          screen.show(String.join("\n", parts.values()));
        }
      } else if (next instanceof Changed changed) {
        change(changed.servers, parts);
        if (screen.redraws()) {
          screen.show(String.join("\n", parts.values()));
        }
      }
    }
  }

  private static String waitingFor(Address server) {
    return "waiting for " + server + "\n";
  }

  private void lost(Ended ended) {
    if (servers.registry().isEmpty() || ended.server == null) {
      throw ended.why;
    }
    if (clients.containsKey(ended.server)) {
      Terminal.note(ended.why.getMessage() + "; trying again");
    }
  }

  private void begin(boolean reconnect) {
    servers.addresses().forEach(server -> follow(server, reconnect));
    servers.registry().ifPresent(registry -> start("watch-registry", () -> watch(registry)));
  }

  private void watch(RegistryClient registry) {
    try {
      registry.watchServers(filter, change -> put(new Changed(change)));
    } catch (BerthException e) {
      put(new Ended(null, e));
    }
  }

  /** Follows the servers that came, and leaves those that went. */
  private void change(WatchServersResponse change, Map<Address, String> parts) {
    Map<String, Address> came = new TreeMap<>();
    for (Server server : change.getServersList()) {
      came.put(server.getInfo().getName(), ManyServers.address(server));
    }
    change.getRemovedList().forEach(name -> leave(registered.remove(name), parts));
    came.forEach(
        (name, address) -> {
          Address before = registered.put(name, address);
          if (!address.equals(before)) {
            leave(before, parts);
            parts.put(address, waitingFor(address));
            follow(address, true);
          }
        });
  }

  private void leave(Address server, Map<Address, String> parts) {
    parts.remove(server);
    GpuClient client = clients.remove(server);
    if (client != null) {
      client.close();
    }
  }

  private void follow(Address server, boolean reconnect) {
    GpuClient client = GpuClient.of(server);
    clients.put(server, client);
    start("watch-" + server, () -> follow(server, client, reconnect));
  }

  private void follow(Address server, GpuClient client, boolean reconnect) {
    try {
      do {
        try {
          client.watchGpus(response -> put(new Response(server, response)));
          put(
              new Ended(
                  server, new BerthException(Reason.UNAVAILABLE, server + " ended the stream")));
        } catch (BerthException e) {
          put(new Ended(server, e));
        }
        TimeUnit.SECONDS.sleep(RECONNECT_SECONDS);
      } while (reconnect && !closed && !client.closed());
    } catch (InterruptedException e) {
      // The process ends.
    }
  }

  private static void start(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    thread.start();
  }

  private void put(News item) {
    try {
      news.put(item);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
