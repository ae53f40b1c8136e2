package berth.client.call;

import berth.client.call.Placement.NotTaken;
import berth.client.spec.ReservationSpec;
import berth.client.spec.Resources;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.Statuses;
import berth.v1.FindGpusRequest;
import berth.v1.Lifetime;
import berth.v1.ReserveRequest;
import berth.v1.ReserveResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.WaitTime;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;

/** Reserves GPUs at whichever server of a group has them. To be used once, by one thread. */
public final class PlacedReservation {
  private static final Duration REACH = Duration.ofSeconds(2);

  private final ServerSource servers;
  private final Consumer<ReserveResponse> consumer;
  private final PlacementListener listener;

  public PlacedReservation(
      ServerSource servers, Consumer<ReserveResponse> consumer, PlacementListener listener) {
    this.servers = servers;
    this.consumer = consumer;
    this.listener = listener;
  }

  /**
   * Reserves, and returns as {@link ReservationClient#reserve} does.
   *
   * @param filter which servers may be considered
   * @throws BerthException if no server took it, or one of them may have and is lost; also for a
   *     {@code request_id} or the life of a process, which only one server knows
   */
  public void reserve(ReserveRequest request, ServerFilter filter) {
    if (!request.getRequestId().isEmpty()) {
      throw new BerthException(Reason.INVALID, "a request ID requires a server");
    }
    if (request.getLifetime().hasProcess()) {
      throw new BerthException(Reason.INVALID, "a process requires a server");
    }
    ReserveRequest asked = request.toBuilder().setRequestId(UUID.randomUUID().toString()).build();
    FindGpusRequest.Builder wanted = FindGpusRequest.newBuilder().setFilter(filter);
    if (request.hasGpus()) {
      wanted.setGpus(request.getGpus());
    }
    try {
      new Placement(servers, listener)
          .place(wanted.build(), request.getWait(), (server, wait) -> ask(server, wait, asked));
    } catch (IOException e) {
      throw new IllegalStateException("nothing is read here", e);
    }
  }

  /** The same for a specification, which says itself which servers may be considered. */
  public void reserve(ReservationSpec spec) {
    reserve(request(spec), ServerFilters.of(servers, spec));
  }

  static ReserveRequest request(ReservationSpec spec) {
    Resources resources = spec.resources();
    ReserveRequest.Builder request =
        ReserveRequest.newBuilder()
            .setPortCount(resources.ports())
            .setWait(Messages.waitTime(resources.waitAtMost()))
            // Unlike what lives by renewals, it goes on while its server is restarted.
            .setLifetime(
                Lifetime.newBuilder().setDuration(Messages.duration(spec.lease())).setRenewed(true))
            .setOwner(ThisUser.owner())
            .setPurpose(spec.purpose());
    RunRequests.gpus(resources.gpus()).ifPresent(request::setGpus);
    return request.build();
  }

  private void ask(Server server, Optional<WaitTime> wait, ReserveRequest request) throws NotTaken {
    ReserveRequest.Builder asked = request.toBuilder().clearWait();
    wait.ifPresent(asked::setWait);
    boolean[] sent = new boolean[1];
    boolean[] told = new boolean[1];
    boolean[] granted = new boolean[1];
    try (ReservationClient client = ReservationClient.of(ManyServers.address(server))) {
      // The stream has no deadline: a machine that is gone would be waited for.
      client.listReservations(REACH);
      sent[0] = true;
      client.reserve(
          asked.build(),
          response -> {
            if (!told[0] && (response.hasGranted() || wait.isPresent())) {
              told[0] = true;
              listener.placed(server, response.hasQueued());
            }
            granted[0] |= response.hasGranted();
            if (told[0]) {
              consumer.accept(response);
            }
          });
    } catch (BerthException e) {
      boolean waitedEnough = told[0] && e.reason() == Reason.TIMED_OUT;
      if (granted[0] || waitedEnough || !Placement.othersMayTake(e)) {
        throw e;
      }
      if (sent[0] && mayBeHeld(request, e)) {
        throw InDoubt.because(e, "it may still be reserved there: see 'berth reservations'");
      }
      throw new NotTaken(e);
    }
  }

  // One that lives by its stream ends with that; any other needs nobody.
  private static boolean mayBeHeld(ReserveRequest request, BerthException failure) {
    return !request.getLifetime().getStream()
        && Statuses.connectionFailed(failure)
        && !InDoubt.wasNotReached(failure);
  }
}
