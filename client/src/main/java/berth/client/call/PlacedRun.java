package berth.client.call;

import berth.client.call.Placement.NotTaken;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.ExitReason;
import berth.v1.FindGpusRequest;
import berth.v1.ListRunsRequest;
import berth.v1.ListServicesResponse;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WaitTime;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;

/**
 * Runs code at whichever server of a group takes it, and follows it as {@link FollowedRun} does. To
 * be used once, by one thread, in which consumer and listener are called too; an interrupt ends it.
 *
 * <p>The events of a server that did not take the run reach nobody, with one exception: a run that
 * waits at a server which then drains begins anew at the next, with another {@code accepted}. With
 * a server that is lost and may have the run, all ends: it must not run twice.
 */
public final class PlacedRun implements AutoCloseable {
  private static final Duration REACH = Duration.ofSeconds(2);

  /** Completes a request for one server. */
  public interface Preparation {
    /**
     * Does what the server needs before it is asked, such as uploading a bundle.
     *
     * @param request all that is the same for every server
     * @param services what this server has
     * @throws BerthException UNAVAILABLE, TIMED_OUT or EXHAUSTED if another server may do better
     */
    void prepare(RunCodeRequest.Builder request, RunClient client, ListServicesResponse services)
        throws IOException;
  }

  /** The end of following a detached run: it has found its place. */
  private static final class Settled extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Settled() {
      super(null, null, false, false);
    }
  }

  private final ServerSource servers;
  private final Consumer<RunEvent> consumer;
  private final PlacementListener listener;
  private volatile RunClient client;
  private volatile FollowedRun followed;

  public PlacedRun(ServerSource servers, Consumer<RunEvent> consumer, PlacementListener listener) {
    this.servers = servers;
    this.consumer = consumer;
    this.listener = listener;
  }

  /** The server that has the run, or is being asked. Valid after an event was passed on. */
  public RunClient client() {
    return client;
  }

  /** The run's name there; empty before it was accepted. Any thread may ask. */
  public String runId() {
    FollowedRun now = followed;
    return now == null ? "" : now.runId();
  }

  /**
   * Runs code, and returns when it has ended; with {@code detached} as soon as a server has taken
   * it: its GPUs are reserved, or it waits for them.
   *
   * @param filter which servers may be considered; the request's service is added
   * @throws BerthException if no server took it, or one of them may have and is lost; also for a
   *     {@code request_id} or a {@code reservation_id}, which only one server knows
   * @throws IOException if the preparation fails so
   */
  public void run(RunCodeRequest request, ServerFilter filter, Preparation preparation)
      throws IOException {
    if (!request.getRequestId().isEmpty() || request.hasReservationId()) {
      throw new BerthException(Reason.INVALID, "a request ID or a reservation requires a server");
    }
    FindGpusRequest.Builder wanted = FindGpusRequest.newBuilder().setToRun(true);
    wanted.setFilter(filter.toBuilder().setService(request.getService()));
    if (request.hasGpus()) {
      wanted.setGpus(request.getGpus());
    }
    new Placement(servers, listener)
        .place(
            wanted.build(),
            request.getWait(),
            (server, wait) -> attempt(server, wait, request, preparation));
  }

  private void attempt(
      Server server, Optional<WaitTime> wait, RunCodeRequest request, Preparation preparation)
      throws NotTaken, IOException {
    followed = null;
    close();
    client = RunClient.of(ManyServers.address(server));
    Gate gate = new Gate(server, wait.isPresent());
    RunCodeRequest.Builder asked = request.toBuilder().clearWait();
    wait.ifPresent(asked::setWait);
    try {
      // Also finds out whether it is there: the stream itself has no deadline.
      ListServicesResponse services = client.listServices(REACH);
      preparation.prepare(asked, client, services);
      gate.prepared = true;
      follow(asked.setRequestId(UUID.randomUUID().toString()).build(), gate);
      if (request.getDetached()) {
        settle(gate);
      }
    } catch (BerthException e) {
      if (gate.mayPass(e)) {
        throw new NotTaken(e);
      }
      throw e;
    }
    gate.checkTaken();
  }

  private void follow(RunCodeRequest request, Gate gate) {
    FollowedRun run = new FollowedRun(client, gate);
    followed = run;
    try {
      run.run(request);
    } catch (BerthException e) {
      if (e.reason() == Reason.UNAVAILABLE && !gate.taken) {
        checkUnknown(request.getRequestId(), gate, e);
      }
      throw e;
    }
  }

  private void settle(Gate gate) {
    try {
      new FollowedRun(client, gate::settle)
          .attach(AttachRunRequest.newBuilder().setRunId(gate.runId).build());
    } catch (Settled e) {
      // As hoped for.
    } catch (BerthException e) {
      // It is that server's now, and goes on there when the server is back.
      throw inDoubt(e, gate.runId);
    }
  }

  // If it is there after all, another would be one too many.
  private void checkUnknown(String requestId, Gate gate, BerthException failure) {
    boolean known;
    try {
      known =
          client
                  .listRuns(
                      ListRunsRequest.newBuilder().setRequestId(requestId).setPageSize(1).build(),
                      REACH)
                  .getRunsCount()
              > 0;
    } catch (BerthException e) {
      // A server that has accepted it goes on with it when it is back.
      known = !gate.runId.isEmpty() || !InDoubt.wasNotReached(failure);
    }
    if (known) {
      throw inDoubt(failure, gate.runId.isEmpty() ? "it" : gate.runId);
    }
  }

  private static BerthException inDoubt(BerthException failure, String run) {
    return InDoubt.because(failure, run + " may still run there: see 'berth runs'");
  }

  /** Ends what still runs, and the connection. */
  @Override
  public void close() {
    if (client != null) {
      client.close();
    }
  }

  /** Holds back what one server says until it is certain that the run stays there. */
  private final class Gate implements Consumer<RunEvent> {
    private final Server server;
    private final boolean waits;
    private String runId = "";
    private RunEvent accepted;
    private boolean told;
    private boolean taken;
    private RunExited refusal;
    private boolean prepared;

    Gate(Server server, boolean waits) {
      this.server = server;
      this.waits = waits;
    }

    @Override
    public void accept(RunEvent event) {
      switch (event.getEventCase()) {
        case ACCEPTED -> {
          runId = event.getAccepted().getRunId();
          accepted = event;
        }
        case QUEUED -> {
          if (waits) {
            tell(true);
            consumer.accept(event);
          }
        }
        case EXITED -> {
          if (!taken && isRefusal(event.getExited())) {
            refusal = event.getExited();
          } else {
            take(event);
          }
        }
        default -> take(event);
      }
    }

    /** The same for a detached run, of which nobody wants to know more than its name. */
    void settle(RunEvent event) {
      if (event.hasAccepted()) {
        return;
      }
      if (event.hasExited() && isRefusal(event.getExited())) {
        refusal = event.getExited();
        return;
      }
      if (!event.hasQueued() || waits) {
        taken = true;
        tell(event.hasQueued());
        throw new Settled();
      }
    }

    private void take(RunEvent event) {
      taken = true;
      tell(false);
      consumer.accept(event);
    }

    private void tell(boolean queued) {
      if (!told) {
        told = true;
        listener.placed(server, queued);
        consumer.accept(accepted);
      }
    }

    private boolean isRefusal(RunExited exited) {
      return exited.getReason() == ExitReason.EXIT_REASON_NOT_RESERVED
          || exited.getReason() == ExitReason.EXIT_REASON_SERVER_LOST;
    }

    /** Whether the run may be given to another server after this one failed so. */
    boolean mayPass(BerthException failure) {
      if (taken) {
        return false;
      }
      return switch (failure.reason()) {
        case EXHAUSTED, UNAVAILABLE -> true;
        // Of a run that waits, that its time is over; of one that is not prepared, a machine that
        // is gone.
        case TIMED_OUT -> accepted == null;
        default -> prepared && accepted == null && Placement.othersMayTake(failure);
      };
    }

    void checkTaken() throws NotTaken {
      if (!taken && refusal != null) {
        throw new NotTaken(new BerthException(Reason.EXHAUSTED, refusal.getMessage()));
      }
    }
  }
}
