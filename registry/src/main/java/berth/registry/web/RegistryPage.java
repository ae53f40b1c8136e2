package berth.registry.web;

import berth.command.Version;
import berth.http.EventStream;
import berth.http.HttpCall;
import berth.http.HttpReply;
import berth.http.HttpServer;
import berth.registry.directory.Roster;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelRunRequest;
import berth.v1.Owner;
import berth.v1.Run;
import java.time.Clock;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The page of a registry: what is served under which path. */
public final class RegistryPage implements AutoCloseable {
  private static final long SHOWN_OF_OLD_OUTPUT = 64 << 10;
  private static final int MOST_OUTPUTS = 200;
  private static final String SERVER = "/api/servers/{server}";

  private final String registryName;
  private final boolean mayCancel;
  private final PageFiles files = new PageFiles();
  private final AtomicInteger outputs = new AtomicInteger();
  private final Wall wall;

  /**
   * @param roster fails as long as nobody knows who is there
   * @param mayCancel whether everyone who sees the page may end runs and clusters
   */
  public RegistryPage(String registryName, Supplier<Roster> roster, boolean mayCancel) {
    this(registryName, roster, mayCancel, Wall.Timing.usual());
  }

  RegistryPage(
      String registryName, Supplier<Roster> roster, boolean mayCancel, Wall.Timing timing) {
    this.registryName = registryName;
    this.mayCancel = mayCancel;
    this.wall = new Wall(roster, this::hello, timing, Clock.systemUTC());
  }

  /** Adds all paths of the page. */
  public void addTo(HttpServer.Builder http) {
    http.get("/", call -> files.reply(call, "index.html"))
        .get("/page/{file}", call -> files.reply(call, call.parameter("file")))
        .get("/api/wall", call -> wall.join(call.events()))
        .get(SERVER + "/history", this::history)
        .get(SERVER + "/runs/{run}/output", this::output)
        .get(SERVER + "/clusters/{cluster}", this::cluster)
        .post(SERVER + "/runs/{run}/cancel", this::cancelRun)
        .post(SERVER + "/clusters/{cluster}/cancel", this::cancelCluster);
  }

  @Override
  public void close() {
    wall.close();
  }

  private byte[] hello(EventStream viewer) {
    return EventStream.event(
        "hello",
        Json.object(
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
            wall.call(call.parameter("server"), server -> ServerJson.history(server.history()))));
  }

  private void cluster(HttpCall call) {
    call.reply(
        HttpReply.json(
            wall.call(
                call.parameter("server"),
                server -> ServerJson.cluster(server.cluster(call.parameter("cluster"))))));
  }

  private void output(HttpCall call) {
    String runId = call.parameter("run");
    ServerClient server = wall.connect(wall.address(call.parameter("server")));
    try {
      long offset = offset(call, server, runId);
      if (outputs.incrementAndGet() > MOST_OUTPUTS) {
        outputs.decrementAndGet();
        throw new BerthException(
            Reason.EXHAUSTED, "the output of " + MOST_OUTPUTS + " runs is being read already");
      }
      EventStream reader = call.events();
      reader.onEnd(outputs::decrementAndGet);
      RunOutput.follow(server, runId, offset, reader);
    } catch (RuntimeException e) {
      server.close();
      throw e;
    }
  }

  // Who comes back goes on where it was; who is new sees the end of what there is.
  private static long offset(HttpCall call, ServerClient server, String runId) {
    Run run = server.run(runId);
    String asked = call.header("Last-Event-ID").or(() -> call.query("from")).orElse("");
    if (asked.isEmpty()) {
      return Math.max(0, run.getOutputBytes() - SHOWN_OF_OLD_OUTPUT);
    }
    try {
      long offset = Long.parseLong(asked);
      if (offset >= 0) {
        return offset;
      }
    } catch (NumberFormatException e) {
      // The same as one that is negative.
    }
    throw new BerthException(Reason.INVALID, "'" + asked + "' is no place in the output");
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
          "this page only shows; a registry that is started with --page-cancel lets everyone who"
              + " sees its page end runs");
    }
    if (call.header("X-Berth-Page").isEmpty()) {
      throw new BerthException(Reason.DENIED, "only the page itself may ask for this");
    }
  }

  private static Owner viewer(HttpCall call) {
    return Owner.newBuilder().setUser("somebody at the page").setHost(call.from()).build();
  }
}
