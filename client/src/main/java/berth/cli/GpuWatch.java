package berth.cli;

import berth.client.GpuClient;
import berth.command.ExitCode;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.WatchGpusResponse;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * {@code berth gpus --watch}: follows several servers at once, one thread each, and prints from one
 * thread.
 */
final class GpuWatch implements AutoCloseable {
  private static final String ENTER = "\033[?1049h\033[?25l\033[?7l";
  private static final String LEAVE = "\033[?7h\033[?25h\033[?1049l";
  private static final String HOME = "\033[H";
  private static final String CLEAR_LINE = "\033[K";
  private static final String CLEAR_REST = "\033[J";
  private static final long RECONNECT_SECONDS = 1;

  private sealed interface News {
    Address server();
  }

  private record Response(Address server, WatchGpusResponse response) implements News {}

  private record Ended(Address server, BerthException why) implements News {}

  private final Map<Address, GpuClient> clients = new LinkedHashMap<>();

  // Bounded, so that a terminal that is stopped slows the stream down to the server, which then
  // skips samples.
  private final LinkedBlockingQueue<News> news = new LinkedBlockingQueue<>(16);
  private volatile boolean closed;

  GpuWatch(List<Address> servers) {
    for (Address server : servers) {
      clients.put(server, GpuClient.of(server));
    }
  }

  @Override
  public void close() {
    closed = true;
    clients.values().forEach(GpuClient::close);
  }

  /** Prints every response as a line of JSON, until a server is lost. */
  int printJson() throws InterruptedException {
    follow(false);
    while (true) {
      News next = news.take();
      if (next instanceof Response response) {
        System.out.println(Json.line(response.response));
      } else if (next instanceof Ended ended) {
        throw ended.why;
      }
      endIfNobodyReads();
    }
  }

  /**
   * Shows the newest sample of all servers: in place on a terminal, else one below the other until
   * one is lost.
   */
  int show(Terminal terminal) throws InterruptedException {
    follow(terminal.interactive());
    GpuTable table = new GpuTable(terminal.colours());
    Map<Address, String> parts = new LinkedHashMap<>();
    clients.keySet().forEach(server -> parts.put(server, "waiting for " + server + "\n"));
    if (terminal.interactive()) {
      System.out.print(ENTER);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.print(LEAVE)));
    }
    while (true) {
      News next = news.take();
      if (next instanceof Response response && response.response.hasReport()) {
        String part = table.render(response.server, response.response.getReport());
        parts.put(response.server, part);
        if (terminal.interactive()) {
          redraw(String.join("\n", parts.values()), terminal.rows());
        } else {
          System.out.println(part);
        }
      } else if (next instanceof Ended ended) {
        if (!terminal.interactive()) {
          throw ended.why;
        }
        parts.put(ended.server, ended.why.getMessage() + "; trying again\n");
        redraw(String.join("\n", parts.values()), terminal.rows());
      }
      endIfNobodyReads();
    }
  }

  private void follow(boolean reconnect) {
    clients.forEach(
        (server, client) -> {
          Thread thread = new Thread(() -> follow(server, client, reconnect), "watch-" + server);
          thread.setDaemon(true);
          thread.start();
        });
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
      } while (reconnect && !closed);
    } catch (InterruptedException e) {
      // The process ends.
    }
  }

  private void put(News item) {
    try {
      news.put(item);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void redraw(String frame, int rows) {
    List<String> lines = new ArrayList<>(frame.lines().toList());
    if (lines.size() > rows) {
      int hidden = lines.size() - rows + 1;
      lines = new ArrayList<>(lines.subList(0, rows - 1));
      lines.add("... " + hidden + " more lines: make the window higher");
    }
    StringBuilder screen = new StringBuilder(HOME);
    for (int i = 0; i < lines.size(); i++) {
      screen.append(i == 0 ? "" : "\n").append(lines.get(i)).append(CLEAR_LINE);
    }
    System.out.print(screen.append(CLEAR_REST));
    System.out.flush();
  }

  // `berth gpus --watch | head` ends here.
  private static void endIfNobodyReads() {
    if (System.out.checkError()) {
      System.exit(ExitCode.OK);
    }
  }
}
