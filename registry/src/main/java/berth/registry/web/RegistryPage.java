package berth.registry.web;

import berth.command.Version;
import berth.http.EventStream;
import berth.http.HttpCall;
import berth.http.HttpHandler;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.registry.directory.Roster;
import berth.rpc.BerthException;
import berth.rpc.DaemonThreads;
import berth.rpc.Reason;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelRunRequest;
import berth.v1.Owner;
import java.time.Clock;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The page of a registry: what is served under which path. */
public final class RegistryPage implements AutoCloseable {
  private static final long SHOWN_OF_OLD_OUTPUT = 64 << 10;
  private static final int MOST_OUTPUTS = 200;
  private static final int THREADS = 16;
  private static final int WAITING_CALLS = 500;
  private static final String SERVER = "/api/servers/{server}";

  private final String registryName;
  private final boolean mayCancel;
  private final PageFiles files = new PageFiles();
  private final AtomicInteger outputs = new AtomicInteger();
  // For calls of servers, which may not answer: whoever asks for something else must not wait.
  private final ExecutorService threads;
  private final FleetBroadcast wall;

  /**
   * @param roster fails as long as nobody knows who is there
   * @param mayCancel whether everyone who sees the page may end runs and clusters
   */
  public RegistryPage(String registryName, Supplier<Roster> roster, boolean mayCancel) {
    this(registryName, roster, mayCancel, FleetBroadcast.Timing.usual());
  }

  RegistryPage(
      String registryName,
      Supplier<Roster> roster,
      boolean mayCancel,
      FleetBroadcast.Timing timing) {
    this(registryName, roster, mayCancel, timing, callThreads(), FleetBroadcast.newThread());
  }

  /**
   * @param threads call servers
   * @param wallThread keeps up to date what all viewers see, one task at a time
   */
  RegistryPage(
      String registryName,
      Supplier<Roster> roster,
      boolean mayCancel,
      FleetBroadcast.Timing timing,
      ExecutorService threads,
      ScheduledExecutorService wallThread) {
    this.registryName = registryName;
    this.mayCancel = mayCancel;
    this.threads = threads;
    this.wall = new FleetBroadcast(roster, this::hello, timing, Clock.systemUTC(), wallThread);
  }

  private static ExecutorService callThreads() {
    return new ThreadPoolExecutor(
        THREADS,
        THREADS,
        1,
        TimeUnit.MINUTES,
        new ArrayBlockingQueue<>(WAITING_CALLS),
        DaemonThreads.named("page-call"));
  }

  /** Adds all paths of the page. */
  public void addTo(HttpServer.Builder http) {
    http.get("/", call -> files.reply(call, "index.html"))
        .get("/page/{file}", call -> files.reply(call, call.parameter("file")))
        .get("/api/wall", call -> wall.join(call.events()))
        .get(SERVER + "/history", patiently(this::history))
        .get(SERVER + "/runs/{run}/output", patiently(this::output))
        .get(SERVER + "/clusters/{cluster}", patiently(this::cluster))
        .post(SERVER + "/runs/{run}/cancel", patiently(this::cancelRun))
        .post(SERVER + "/clusters/{cluster}/cancel", patiently(this::cancelCluster));
  }

  private HttpHandler patiently(Consumer<HttpCall> handler) {
    return call -> {
      try {
        threads.execute(
            () -> {
              try {
                handler.accept(call);
              } catch (RuntimeException | Error e) {
                call.fail(e);
              }
            });
      } catch (RejectedExecutionException e) {
        throw new BerthException(
            Reason.EXHAUSTED, "too many calls wait for servers already; try again", e);
      }
    };
  }

  @Override
  public void close() {
    threads.shutdownNow();
    wall.close();
  }

  private byte[] hello(EventStream viewer) {
    return EventStream.event(
        "hello",
        PageJson.object(
            json ->
                json.put("registry", registryName)
                    .put("version", Version.current())
                    .put("mayCancel", mayCancel)
                    .put("now", Clock.systemUTC().millis())
                    .put("sampleSeconds", 1)));
  }

  private void history(HttpCall call) {
    call.reply(
        HttpReply.json(
            wall.call(
                call.parameter("server"),
                server -> ServerJson.history(server.history(), System.currentTimeMillis()))));
  }

  private void cluster(HttpCall call) {
    call.reply(
        HttpReply.json(
            wall.call(
                call.parameter("server"),
                server -> ServerJson.cluster(server.cluster(call.parameter("cluster"))))));
  }

  private void output(HttpCall call) {
    Optional<Long> asked = askedOffset(call);
    EventStream reader = call.events();
    try {
      follow(call.parameter("server"), call.parameter("run"), asked, reader);
    } catch (BerthException e) {
      RunOutput.fail(reader, e);
    }
  }

  private void follow(String name, String runId, Optional<Long> asked, EventStream reader) {
    if (outputs.incrementAndGet() > MOST_OUTPUTS) {
      outputs.decrementAndGet();
      throw new BerthException(
          Reason.UNAVAILABLE, "the output of " + MOST_OUTPUTS + " runs is being read already");
    }
    reader.onEnd(outputs::decrementAndGet);
    ServerClient server = wall.connect(wall.address(name));
    try {
      long written = server.run(runId).getOutputBytes();
      long offset = asked.orElse(Math.max(0, written - SHOWN_OF_OLD_OUTPUT));
      RunOutput.follow(server, runId, offset, reader);
    } catch (RuntimeException e) {
      server.close();
      throw e;
    }
  }

  // Who comes back goes on where it was; who is new sees the end of what there is.
  private static Optional<Long> askedOffset(HttpCall call) {
    Optional<String> asked = call.header("Last-Event-ID").or(() -> call.query("from"));
    if (asked.isEmpty()) {
      return Optional.empty();
    }
    try {
      long offset = Long.parseLong(asked.get());
      if (offset >= 0) {
        return Optional.of(offset);
      }
    } catch (NumberFormatException e) {
      // The same as one that is negative.
    }
    throw new BerthException(
        Reason.INVALID, "'" + asked.get() + "' is not a position in the output");
  }

  private void cancelRun(HttpCall call) {
    CancelRunRequest request =
        CancelRunRequest.newBuilder().setRunId(call.parameter("run")).setBy(viewer(call)).build();
    cancel(call, server -> server.cancel(request));
  }

  private void cancelCluster(HttpCall call) {
    CancelClusterRequest request =
        CancelClusterRequest.newBuilder()
            .setClusterId(call.parameter("cluster"))
            .setBy(viewer(call))
            .build();
    cancel(call, server -> server.cancel(request));
  }

  private void cancel(HttpCall call, Consumer<ServerClient> cancel) {
    checkMayCancel(call);
    wall.call(
        call.parameter("server"),
        server -> {
          cancel.accept(server);
          return true;
        });
    call.reply(HttpReply.json("{}"));
  }

  // A browser lets no page but ours set such a header.
  private void checkMayCancel(HttpCall call) {
    if (!mayCancel) {
      throw new BerthException(
          Reason.DENIED,
          "this page is read-only; start berth-registry with --page-cancel to allow cancelling");
    }
    if (call.header("X-Berth-Page").isEmpty()) {
      throw new BerthException(Reason.DENIED, "cross-site request refused");
    }
  }

  private static Owner viewer(HttpCall call) {
    return Owner.newBuilder().setUser("web-page").setHost(call.from()).build();
  }
}
