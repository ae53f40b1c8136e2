package berth.cli;

import berth.client.call.RegistryClient;
import berth.rpc.BerthException;
import berth.rpc.PlainText;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/** Shows the servers of a registry whenever something about them changes. */
final class ServerListWatch implements RegistryClient.Watcher {
  private final Map<String, Server> servers = new TreeMap<>();
  private final Screen screen;
  private final Function<Collection<Server>, String> table;

  private ServerListWatch(Screen screen, Function<Collection<Server>, String> table) {
    this.screen = screen;
    this.table = table;
  }

  /** Does so until Ctrl-C. */
  static void show(
      RegistryClient registry, ServerFilter filter, Function<Collection<Server>, String> table) {
    registry.watchServers(filter, new ServerListWatch(new Screen(Terminal.ofThisProcess()), table));
  }

  /** Prints every change as a line of JSON, until Ctrl-C. */
  static void printJson(RegistryClient registry, ServerFilter filter) {
    registry.watchServers(
        filter,
        new RegistryClient.Watcher() {
          @Override
          public void changed(WatchServersResponse news) {
            Terminal.line(JsonOutput.line(news));
            Screen.endIfNobodyReads();
          }

          @Override
          public void lost(BerthException why) {
            Terminal.note(why.getMessage() + "; trying again");
          }
        });
  }

  @Override
  public void changed(WatchServersResponse news) {
    news.getRemovedList().forEach(servers::remove);
    news.getServersList().forEach(server -> servers.put(server.getInfo().getName(), server));
    screen.show(table.apply(servers.values()));
  }

  @Override
  public void lost(BerthException why) {
    String text = PlainText.clean(why.getMessage()) + "; trying again";
    if (screen.redraws()) {
      screen.show(table.apply(servers.values()) + "\n" + text + "\n");
    } else {
      Terminal.note(text);
    }
  }
}
