package berth.client.cluster;

import berth.client.GpuServer;
import berth.client.RunSpec;
import berth.client.ThisUser;
import berth.client.cluster.Hosts.Host;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.Lifetime;
import berth.v1.RenewRequest;
import berth.v1.Reservation;
import berth.v1.ReserveRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.function.BiConsumer;
import java.util.function.Function;

/**
 * The reservations of all tasks of a cluster: there is one for each, or none at all. They end by
 * themselves soon after nobody has renewed them.
 */
final class Gang {
  /** How long what is held stays held when its cluster is heard of no more. */
  static final Duration LEASE = Duration.ofSeconds(30);

  private static final Duration TIMEOUT = Duration.ofSeconds(5);

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
  private record Share(TaskName task, GpuServer server, Host host, Reservation reservation) {}

  private final ClusterPlan plan;
  private final ExecutorService threads;
  private final Map<TaskName, Share> shares;

  private Gang(ClusterPlan plan, ExecutorService threads, Map<TaskName, Share> shares) {
    this.plan = plan;
    this.threads = threads;
    this.shares = shares;
  }

  /**
   * Reserves what all tasks of a plan need, at all servers at once and without waiting at any.
   *
   * @throws Refused if one does not give it; what others gave is given back then
   */
  static Gang reserve(
      ClusterRequest request, ClusterPlan plan, Hosts hosts, ExecutorService threads)
      throws Refused {
    Map<TaskName, ReserveRequest> requests = new LinkedHashMap<>();
    Map<TaskName, CompletableFuture<Share>> asked = new LinkedHashMap<>();
    plan.servers()
        .forEach(
            (task, server) -> {
              requests.put(task, ask(request, task));
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
    Gang gang = new Gang(plan, threads, shares);
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

  private static ReserveRequest ask(ClusterRequest request, TaskName task) {
    RunSpec run = request.group(task).run();
    ReserveRequest.Builder asked =
        ReserveRequest.newBuilder()
            .setPortCount(1)
            // So that a server that restarts still knows it.
            .setLifetime(Lifetime.newBuilder().setDuration(Messages.duration(LEASE)))
            .setOwner(ThisUser.owner())
            .setPurpose(task + " of cluster " + request.name())
            .setRequestId(UUID.randomUUID().toString());
    if (run.gpus() != 0) {
      asked.setGpus(
          GpuRequest.newBuilder()
              .setCount(run.gpus())
              .setModel(run.gpuModel())
              .setMinFreeMemoryBytes(run.minGpuMemoryBytes()));
    }
    return asked.build();
  }

  ClusterPlan plan() {
    return plan;
  }

  Reservation reservation(TaskName task) {
    return shares.get(task).reservation();
  }

  Host host(TaskName task) {
    return shares.get(task).host();
  }

  /** Who is where. */
  ClusterSpec spec() {
    Map<TaskName, Address> addresses = new LinkedHashMap<>();
    shares.forEach(
        (task, share) ->
            addresses.put(
                task,
                new Address(share.server().address().host(), share.reservation().getPorts(0))));
    return new ClusterSpec(addresses);
  }

  /**
   * Keeps everything for a further lease.
   *
   * @param failed is told who did not answer, or has nothing to keep
   */
  void renew(BiConsumer<TaskName, BerthException> failed) {
    forEach(
        share -> {
          // A server that restarts may be back long before gRPC would look for it again.
          share.host().reservations().connectNow();
          share
              .host()
              .reservations()
              .renew(
                  RenewRequest.newBuilder()
                      .setReservationId(share.reservation().getReservationId())
                      .setLease(Messages.duration(LEASE))
                      .build(),
                  TIMEOUT);
          return null;
        },
        failed);
  }

  /**
   * Gives everything back, and returns when that is done.
   *
   * @param failed is told who did not answer
   */
  void release(BiConsumer<TaskName, BerthException> failed) {
    forEach(
        share -> {
          share.host().reservations().release(share.reservation().getReservationId(), TIMEOUT);
          return null;
        },
        (task, why) -> {
          if (why.reason() != Reason.NOT_FOUND) {
            failed.accept(task, why);
          }
        });
  }

  private void forEach(Function<Share, Void> call, BiConsumer<TaskName, BerthException> failed) {
    List<CompletableFuture<Void>> pending = new ArrayList<>();
    shares
        .values()
        .forEach(
            share ->
                pending.add(
                    CompletableFuture.supplyAsync(() -> call.apply(share), threads)
                        .exceptionally(
                            e -> {
                              if (e.getCause() instanceof BerthException why) {
                                failed.accept(share.task(), why);
                                return null;
                              }
                              throw new CompletionException(e);
                            })));
    pending.forEach(CompletableFuture::join);
  }
}
