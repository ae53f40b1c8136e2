package berth.registry.web;

import berth.http.EventStream;
import berth.registry.directory.Roster;
import berth.registry.directory.ServerWatch;
import berth.registry.web.ServerView.State;
import berth.rpc.Address;
import berth.rpc.Backoff;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import berth.rpc.RpcThreads;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WatchOverviewResponse;
import berth.v1.WatchServersResponse;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What all who look at the page see, the same for each of them.
 *
 * <p>One thread does everything, once a second: it asks the roster who is there, takes what the
 * servers have sent, and sends each viewer what is new; all viewers get the same bytes. The servers
 * are watched only while there are viewers, and a little longer. Any thread may call.
 */
final class FleetBroadcast implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(FleetBroadcast.class);

  /** How often, and how long. */
  record Timing(Duration tick, Duration linger, Duration keepGone, Duration retry) {
    static Timing usual() {
      return new Timing(
          Duration.ofSeconds(1),
          Duration.ofSeconds(30),
          Duration.ofHours(1),
          Duration.ofSeconds(2));
    }
  }

  private static final Duration LONGEST_RETRY = Duration.ofSeconds(30);
  // The others are shown as the registry knows them.
  private static final int MOST_WATCHED = 1000;
  // Not all at once: the others wait for the next second.
  private static final int NEW_LINKS_A_TICK = 100;
  // Everything is a few megabytes with many servers, which lie in buffers until they are sent. When
  // all viewers come back at once, the others wait for the next second.
  private static final int WHOLE_A_TICK = 20;
  private static final int THREADS = 2;
  private static final ServerFilter ALL = ServerFilter.getDefaultInstance();

  /** One server. */
  private static final class Entry {
    private volatile ServerView view;
    private volatile OverviewSubscription link;
    private ServerView shown;
    private String json = "";
    private long changed;
    private boolean sampled;
    private long retryAtNanos = System.nanoTime();
    private final Backoff retries;

    Entry(Duration firstRetry) {
      retries = new Backoff(firstRetry, LONGEST_RETRY);
    }
  }

  /** One who looks; behind if what it was told last is not what all others were. */
  private static final class Viewer {
    private final EventStream stream;
    private long told = -1;

    Viewer(EventStream stream) {
      this.stream = stream;
    }
  }

  private final Supplier<Roster> roster;
  private final Function<EventStream, byte[]> greeting;
  private final Timing timing;
  private final Clock clock;
  private final RpcThreads rpcThreads = new RpcThreads("page", THREADS);
  private final ScheduledExecutorService thread;

  // Changed by the thread alone; others look servers up.
  private final Map<String, Entry> servers = new ConcurrentSkipListMap<>();
  private final List<Viewer> viewers = new ArrayList<>();
  private final Set<String> unseen = new HashSet<>();
  private ServerWatch watch;
  private long version;
  private long lastViewerNanos;
  private int wholeLeft;

  /**
   * @param roster fails as long as nobody knows who is there
   * @param greeting what a viewer is told first
   * @param thread does one task at a time; closed with this
   */
  FleetBroadcast(
      Supplier<Roster> roster,
      Function<EventStream, byte[]> greeting,
      Timing timing,
      Clock clock,
      ScheduledExecutorService thread) {
    this.roster = roster;
    this.greeting = greeting;
    this.timing = timing;
    this.clock = clock;
    this.thread = thread;
    this.lastViewerNanos = System.nanoTime() - timing.linger.toNanos();
    thread.scheduleAtFixedRate(this::tick, 0, timing.tick.toNanos(), TimeUnit.NANOSECONDS);
  }

  /** What does everything. */
  static ScheduledExecutorService newThread() {
    return Executors.newSingleThreadScheduledExecutor(DaemonThreads.named("wall"));
  }

  /** Shows everything to one more. */
  void join(EventStream stream) {
    thread.execute(
        () -> {
          stream.send(greeting.apply(stream));
          viewers.add(new Viewer(stream));
          if (viewers.size() == 1) {
            tick();
          } else if (wholeLeft-- > 0) {
            // The others have been told this already.
            stream.send(serversEvent(List.copyOf(servers.values()), true));
            viewers.get(viewers.size() - 1).told = version;
          }
        });
    stream.onEnd(() -> leave(stream));
  }

  private void leave(EventStream stream) {
    if (!thread.isShutdown()) {
      thread.execute(() -> viewers.removeIf(viewer -> viewer.stream == stream));
    }
  }

  /**
   * Where a server is.
   *
   * @throws BerthException NOT_FOUND if it is not there
   */
  Address address(String name) {
    ServerView view = find(name).view;
    if (view.state() == State.GONE) {
      throw new BerthException(Reason.NOT_FOUND, name + " is gone");
    }
    return Address.parse(view.server().getInfo().getAddress(), 0);
  }

  /**
   * Calls a server.
   *
   * @throws BerthException NOT_FOUND if it is not there, or what the call failed with
   */
  <T> T call(String name, Function<ServerClient, T> call) {
    Address address = address(name);
    OverviewSubscription link = find(name).link;
    if (link != null) {
      return call.apply(link.client());
    }
    try (ServerClient client = connect(address)) {
      return call.apply(client);
    }
  }

  /** A connection of its own, to be closed by the caller. */
  ServerClient connect(Address address) {
    return new ServerClient(address, rpcThreads);
  }

  private Entry find(String name) {
    Entry entry = servers.get(name);
    if (entry == null) {
      throw new BerthException(Reason.NOT_FOUND, "no server '" + name + "' is registered");
    }
    return entry;
  }

  @Override
  public void close() {
    thread.shutdownNow();
    try {
      thread.awaitTermination(1, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    viewers.forEach(viewer -> viewer.stream.end());
    servers.values().forEach(this::unlink);
    rpcThreads.close();
  }

  private void tick() {
    try {
      askRoster();
      forgetGone();
      if (!viewers.isEmpty()) {
        lastViewerNanos = System.nanoTime();
      }
      if (System.nanoTime() - lastViewerNanos < timing.linger.toNanos()) {
        linkAll();
        servers.values().forEach(this::takeNews);
      } else {
        servers.values().forEach(this::unlink);
      }
      if (!viewers.isEmpty()) {
        show();
      }
    } catch (RuntimeException | Error e) {
      // The next second is another one, which there would not be after a failure.
      log.error("cannot update the page", e);
    }
  }

  private void askRoster() {
    if (watch == null) {
      try {
        watch = new ServerWatch(roster.get(), ALL, "");
      } catch (BerthException e) {
        return;
      }
    }
    for (WatchServersResponse news; (news = watch.next()) != null; ) {
      if (news.getReset()) {
        unseen.addAll(servers.keySet());
      }
      news.getServersList().forEach(this::isThere);
      news.getRemovedList().forEach(this::isGone);
      if (news.getComplete()) {
        unseen.forEach(this::isGone);
        unseen.clear();
      }
    }
  }

  private void isThere(Server server) {
    String name = server.getInfo().getName();
    unseen.remove(name);
    Entry entry = servers.computeIfAbsent(name, added -> new Entry(timing.retry));
    long now = clock.millis();
    if (entry.view == null) {
      entry.view = ServerView.of(server, now);
      return;
    }
    boolean another = !entry.view.server().getInstance().equals(server.getInstance());
    entry.view = entry.view.with(server);
    if (another || entry.view.state() == State.GONE) {
      unlink(entry);
      entry.view = entry.view.in(State.UP, now, "");
    }
  }

  private void isGone(String name) {
    Entry entry = servers.get(name);
    if (entry != null && entry.view.state() != State.GONE) {
      unlink(entry);
      entry.view = entry.view.in(State.GONE, clock.millis(), "no heartbeats");
    }
  }

  private void forgetGone() {
    long before = clock.millis() - timing.keepGone.toMillis();
    List<String> forgotten =
        servers.values().stream()
            .map(entry -> entry.view)
            .filter(view -> view.state() == State.GONE && view.since() < before)
            .map(ServerView::name)
            .toList();
    if (!forgotten.isEmpty()) {
      forgotten.forEach(servers::remove);
      // So seldom that all may be told anew.
      version++;
      viewers.forEach(viewer -> viewer.told = -1);
    }
  }

  private void linkAll() {
    int watched = 0;
    int added = 0;
    for (Entry entry : servers.values()) {
      if (entry.view.state() == State.GONE || ++watched > MOST_WATCHED) {
        continue;
      }
      if (entry.link == null && System.nanoTime() - entry.retryAtNanos >= 0) {
        if (++added > NEW_LINKS_A_TICK) {
          return;
        }
        link(entry);
      }
    }
  }

  // One whose address nobody can call must not keep the others from being seen.
  private void link(Entry entry) {
    try {
      entry.link =
          new OverviewSubscription(
              Address.parse(entry.view.server().getInfo().getAddress(), 0), rpcThreads);
    } catch (RuntimeException e) {
      unreachable(entry, e.getMessage() == null ? e.toString() : e.getMessage());
    }
  }

  private void unlink(Entry entry) {
    closeLink(entry);
    entry.retryAtNanos = System.nanoTime();
    entry.retries.reset();
  }

  private static void closeLink(Entry entry) {
    if (entry.link != null) {
      entry.link.close();
      entry.link = null;
    }
  }

  private void takeNews(Entry entry) {
    OverviewSubscription link = entry.link;
    if (link == null) {
      return;
    }
    for (WatchOverviewResponse news; (news = link.poll()) != null; ) {
      entry.view = entry.view.with(news).in(State.UP, clock.millis(), "");
      entry.sampled |= news.hasReport();
      entry.retries.reset();
    }
    link.broken().ifPresent(why -> unreachable(entry, why));
  }

  private void unreachable(Entry entry, String why) {
    closeLink(entry);
    entry.retryAtNanos = System.nanoTime() + entry.retries.next().toNanos();
    entry.view = entry.view.in(State.UNREACHABLE, clock.millis(), why);
  }

  private void show() {
    List<Entry> changed = new ArrayList<>();
    for (Entry entry : servers.values()) {
      if (entry.shown == null || !ServerJson.looksTheSame(entry.view, entry.shown)) {
        entry.json = ServerJson.server(entry.view);
        changed.add(entry);
      }
      entry.shown = entry.view;
    }
    long before = version;
    if (!changed.isEmpty()) {
      version++;
    }
    byte[] news = changed.isEmpty() ? null : serversEvent(changed, false);
    byte[] everything = null;
    wholeLeft = WHOLE_A_TICK;
    byte[] samples = samplesEvent();
    for (Viewer viewer : viewers) {
      // Who does not keep up is told the rest when it does, all of it at once.
      if (!viewer.stream.isReady() || viewer.told != before && wholeLeft-- <= 0) {
        continue;
      }
      if (viewer.told == before && news != null) {
        viewer.stream.send(news);
      } else if (viewer.told != before) {
        if (everything == null) {
          everything = serversEvent(List.copyOf(servers.values()), true);
        }
        viewer.stream.send(everything);
      }
      viewer.told = version;
      if (samples != null) {
        viewer.stream.send(samples);
      }
    }
  }

  private byte[] serversEvent(List<Entry> entries, boolean all) {
    return EventStream.event(
        "servers",
        "{\"now\":"
            + clock.millis()
            + ",\"reset\":"
            + all
            + ",\"servers\":["
            + entries.stream().map(entry -> entry.json).collect(Collectors.joining(","))
            + "]}");
  }

  /** Null if there is no new sample. */
  private byte[] samplesEvent() {
    List<Entry> sampled = servers.values().stream().filter(entry -> entry.sampled).toList();
    if (sampled.isEmpty()) {
      return null;
    }
    sampled.forEach(entry -> entry.sampled = false);
    return EventStream.event(
        "samples",
        PageJson.object(
            json ->
                json.put("t", clock.millis())
                    .putObject(
                        "s",
                        all -> {
                          for (Entry entry : sampled) {
                            ServerJson.putSample(all, entry.view);
                          }
                        })));
  }
}
