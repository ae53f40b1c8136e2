package berth.client.cluster;

import berth.client.call.RunRequests;
import berth.client.cluster.Hosts.Host;
import berth.client.spec.GpuServer;
import berth.client.spec.RunSpec;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.Lifetime;
import berth.v1.Owner;
import berth.v1.RenewRequest;
import berth.v1.Reservation;
import berth.v1.ReserveRequest;
import berth.v1.ReservedGpu;
import berth.v1.TaskAttempt;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * The reservations of all tasks of a cluster: there is one for each, or none at all. They end by
 * themselves soon after nobody has renewed them.
 */
final class GangReservation {
  /** How long what is held stays held when its cluster is heard of no more. */
  static final Duration LEASE = Duration.ofSeconds(30);

  private static final Duration TIMEOUT = Duration.ofSeconds(5);
  private static final Duration ASK_AGAIN = Duration.ofMillis(500);

  /** One server did not give what was asked of it, so nobody was asked to keep anything. */
  static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient GpuServer server;
    private final transient TaskName task;
    private final BerthException why;

    private Refused(GpuServer server, TaskName task, BerthException why) {
      super(server.name() + " has nothing for " + task + ": " + why.getMessage(), why);
      this.server = server;
      this.task = task;
      this.why = why;
    }

    GpuServer server() {
      return server;
    }

    TaskName task() {
      return task;
    }

    BerthException why() {
      return why;
    }
  }

  /** What one task holds. */
  private static final class Share {
    private final TaskName task;
    private final GpuServer server;
    private final Host host;
    private final Reservation reservation;
    // When its server last said that it is there.
    private volatile long heardOf = System.nanoTime();
    private volatile boolean released;

    Share(TaskName task, GpuServer server, Host host, Reservation reservation) {
      this.task = task;
      this.server = server;
      this.host = host;
      this.reservation = reservation;
    }

    void renew() {
      // A server that restarts may be back long before gRPC would look for it again.
      host.reservations().connectNow();
      host.reservations()
          .renew(
              RenewRequest.newBuilder()
                  .setReservationId(reservation.getReservationId())
                  .setLease(Messages.duration(LEASE))
                  .build(),
              TIMEOUT);
      heardOf = System.nanoTime();
    }

    void release() {
      host.reservations().release(reservation.getReservationId(), TIMEOUT);
      released = true;
    }

    /** How long until its lease must have ended, and what ran under it. */
    long nanosUntilGone(Duration stopGrace) {
      Duration certain = LEASE.plus(stopGrace).plus(TIMEOUT);
      return heardOf + certain.toNanos() - System.nanoTime();
    }
  }

  private final ClusterPlan plan;
  private final ExecutorService threads;
  private final Map<TaskName, Share> shares;

  private GangReservation(ClusterPlan plan, ExecutorService threads, Map<TaskName, Share> shares) {
    this.plan = plan;
    this.threads = threads;
    this.shares = shares;
  }

  /**
   * Reserves what all tasks of a plan need, at all servers at once and without waiting at any.
   *
   * @throws Refused if one does not give it; what others gave is given back then
   */
  static GangReservation reserve(
      ClusterRequest request, Owner owner, ClusterPlan plan, Hosts hosts, ExecutorService threads)
      throws Refused {
    Map<TaskName, ReserveRequest> requests = new LinkedHashMap<>();
    Map<TaskName, CompletableFuture<Share>> asked = new LinkedHashMap<>();
    plan.servers()
        .forEach(
            (task, server) -> {
              requests.put(task, ask(request, owner, task));
              asked.put(
                  task,
                  CompletableFuture.supplyAsync(
                      () -> reserve(requests.get(task), task, server, hosts.of(server)), threads));
            });
    Map<TaskName, Share> shares = new LinkedHashMap<>();
    List<TaskName> inDoubt = new ArrayList<>();
    Refused refused = null;
    for (Map.Entry<TaskName, CompletableFuture<Share>> each : asked.entrySet()) {
      try {
        shares.put(each.getKey(), each.getValue().join());
      } catch (CompletionException e) {
        if (!(e.getCause() instanceof BerthException why)) {
          throw e;
        }
        if (why.reason() == Reason.UNAVAILABLE || why.reason() == Reason.TIMED_OUT) {
          inDoubt.add(each.getKey());
        }
        if (refused == null) {
          refused = new Refused(plan.servers().get(each.getKey()), each.getKey(), why);
        }
      }
    }
    GangReservation gang = new GangReservation(plan, threads, shares);
    if (refused != null) {
      gang.release((server, why) -> {});
      inDoubt.stream()
          .map(
              task ->
                  CompletableFuture.runAsync(
                      () -> giveBackInDoubt(hosts.of(plan.servers().get(task)), requests.get(task)),
                      threads))
          .toList()
          .forEach(CompletableFuture::join);
      throw refused;
    }
    return gang;
  }

  private static Share reserve(ReserveRequest asked, TaskName task, GpuServer server, Host host) {
    return new Share(task, server, host, host.reservations().reserveNow(asked, TIMEOUT));
  }

  // The answer may have been lost rather than the question: the same id gets the same reservation.
  // If this is lost too, the lease ends it.
  private static void giveBackInDoubt(Host host, ReserveRequest asked) {
    try {
      Reservation held = host.reservations().reserveNow(asked, TIMEOUT);
      host.reservations().release(held.getReservationId(), TIMEOUT);
    } catch (BerthException e) {
      // It is as good as it gets.
    }
  }

  private static ReserveRequest ask(ClusterRequest request, Owner owner, TaskName task) {
    RunSpec run = request.group(task).run();
    ReserveRequest.Builder asked =
        ReserveRequest.newBuilder()
            .setPortCount(1)
            // So that a server that restarts still knows it.
            .setLifetime(
                Lifetime.newBuilder().setDuration(Messages.duration(LEASE)).setRenewed(true))
            .setOwner(owner)
            .setPurpose(task + " of cluster " + request.name())
            .setRequestId(UUID.randomUUID().toString());
    RunRequests.gpus(run.resources().gpus()).ifPresent(asked::setGpus);
    return asked.build();
  }

  /**
   * What an earlier supervisor had reserved, which may still be there.
   *
   * @param ledger of a cluster that is formed
   */
  static GangReservation restore(
      ClusterRequest request, Ledger ledger, Hosts hosts, ExecutorService threads) {
    Map<TaskName, GpuServer> servers = new LinkedHashMap<>();
    Map<TaskName, Share> shares = new LinkedHashMap<>();
    for (TaskName task : request.tasks()) {
      TaskAttempt last = ledger.attempt(task);
      GpuServer server =
          GpuServer.unseen(last.getServer(), Address.parse(last.getServerAddress(), 0));
      Reservation held =
          Reservation.newBuilder()
              .setReservationId(last.getReservationId())
              .addPorts(Address.parse(last.getAddress(), 0).port())
              .addAllGpus(
                  last.getGpusList().stream()
                      .map(index -> ReservedGpu.newBuilder().setIndex(index).build())
                      .toList())
              .build();
      servers.put(task, server);
      shares.put(task, new Share(task, server, hosts.of(server), held));
    }
    return new GangReservation(new ClusterPlan(servers), threads, shares);
  }

  ClusterPlan plan() {
    return plan;
  }

  Reservation reservation(TaskName task) {
    return shares.get(task).reservation;
  }

  GpuServer server(TaskName task) {
    return shares.get(task).server;
  }

  Host host(TaskName task) {
    return shares.get(task).host;
  }

  /** Who is where. */
  ClusterSpec spec() {
    Map<TaskName, Address> addresses = new LinkedHashMap<>();
    shares.forEach(
        (task, share) ->
            addresses.put(
                task, new Address(share.server.address().host(), share.reservation.getPorts(0))));
    return new ClusterSpec(addresses);
  }

  /** Keeps everything for a further lease, at all servers that answer. */
  void renew() {
    forEach(Share::renew, (task, why) -> {});
  }

  /**
   * Whether a task still holds what it had, as of now. A server that does not answer is asked again
   * until its lease must have ended there: what ran there has been stopped then.
   *
   * @param stopGrace how long a program may take to end there
   * @throws InterruptedException if this thread is interrupted meanwhile
   */
  boolean holds(TaskName task, Duration stopGrace) throws InterruptedException {
    Share share = shares.get(task);
    while (true) {
      try {
        share.renew();
        return true;
      } catch (BerthException e) {
        switch (e.reason()) {
          case NOT_FOUND -> {
            return false;
          }
          case UNAVAILABLE, TIMED_OUT -> {
            if (share.nanosUntilGone(stopGrace) <= 0) {
              return false;
            }
          }
          default -> throw e;
        }
      }
      TimeUnit.NANOSECONDS.sleep(ASK_AGAIN.toNanos());
    }
  }

  /**
   * Gives everything back, and returns when that is done.
   *
   * @param failed is told who did not answer
   */
  void release(BiConsumer<TaskName, BerthException> failed) {
    forEach(
        Share::release,
        (task, why) -> {
          if (why.reason() == Reason.NOT_FOUND) {
            shares.get(task).released = true;
          } else {
            failed.accept(task, why);
          }
        });
  }

  /**
   * Returns when nothing of it can be left anywhere: on a server that did not answer, when its
   * lease must have ended.
   *
   * @throws InterruptedException if this thread is interrupted meanwhile
   */
  void awaitGone(Duration stopGrace) throws InterruptedException {
    for (Share share : shares.values()) {
      if (!share.released) {
        TimeUnit.NANOSECONDS.sleep(share.nanosUntilGone(stopGrace));
      }
    }
  }

  private void forEach(Consumer<Share> call, BiConsumer<TaskName, BerthException> failed) {
    List<CompletableFuture<Void>> pending = new ArrayList<>();
    for (Share share : shares.values()) {
      pending.add(
          CompletableFuture.runAsync(() -> call.accept(share), threads)
              .exceptionally(
                  e -> {
                    if (e.getCause() instanceof BerthException why) {
                      failed.accept(share.task, why);
                      return null;
                    }
                    throw new CompletionException(e);
                  }));
    }
    pending.forEach(CompletableFuture::join);
  }
}
