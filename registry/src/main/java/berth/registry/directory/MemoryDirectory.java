package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.Server;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Keeps everything in memory. After a restart the servers fill it again with their heartbeats. */
public final class MemoryDirectory implements Directory {
  private static final Logger log = LoggerFactory.getLogger(MemoryDirectory.class);

  private static final class Member {
    private Server server;
    private long leaseEnd;

    Member(Server server) {
      this.server = server;
    }
  }

  private final LeaseTerms terms;
  private final DirectoryMetrics metrics;
  private final LongSupplier nanoClock;
  private final Roster roster;
  private final Map<String, Member> byName = new HashMap<>();
  private final Map<String, String> nameByAddress = new HashMap<>();
  private long revision;
  private long lastSweep;
  private volatile boolean closed;

  public MemoryDirectory(LeaseTerms terms, DirectoryMetrics metrics, Vitals vitals) {
    this(terms, metrics, vitals, System::nanoTime);
    vitals.start("leases", this::sweepSoon);
  }

  /** One whose leases end only when {@link #sweep} is called. */
  MemoryDirectory(
      LeaseTerms terms, DirectoryMetrics metrics, Vitals vitals, LongSupplier nanoClock) {
    this.roster = new Roster(UUID.randomUUID().toString(), vitals);
    this.terms = terms;
    this.metrics = metrics;
    this.nanoClock = nanoClock;
    this.lastSweep = nanoClock.getAsLong();
  }

  @Override
  public synchronized RegisterResponse register(RegisterRequest request) {
    String name = request.getInfo().getName();
    String address = request.getInfo().getAddress();
    Optional<Server> byThisName = known(name);
    Optional<Server> byThisAddress =
        Optional.ofNullable(nameByAddress.get(address)).flatMap(this::known);
    RegistrationClaim claim =
        RegistrationClaim.decide(request, byThisName, byThisAddress, System.currentTimeMillis());
    if (byThisName.isEmpty() && byName.size() >= terms.maxServers()) {
      throw new BerthException(
          Reason.EXHAUSTED, byName.size() + " servers are registered, the maximum");
    }
    for (Server loser : claim.replaced()) {
      log.warn("{}", claim.loss(loser, request));
      if (!loser.getInfo().getName().equals(name)) {
        forget(loser);
        metrics.replaced();
      }
    }
    boolean isNew = byThisName.isEmpty() || !claim.replaced().isEmpty();
    if (isNew) {
      log.info("{} at {} joined", name, address);
    }
    byThisName.ifPresent(server -> nameByAddress.remove(server.getInfo().getAddress()));
    Server server = claim.server(request, byThisName);
    Member member = new Member(server);
    byName.put(name, member);
    nameByAddress.put(address, name);
    renew(member);
    roster.put(server, ++revision);
    return terms.response(request.getInstance(), claim.generation());
  }

  @Override
  public synchronized HeartbeatResponse heartbeat(HeartbeatRequest request) {
    Member member = byName.get(request.getName());
    if (member == null) {
      return HeartbeatResponse.newBuilder().setUnknown(true).build();
    }
    if (!member.server.getInstance().equals(request.getInstance())) {
      return HeartbeatResponse.newBuilder()
          .setReplacedBy(RegistrationClaim.describe(member.server))
          .build();
    }
    renew(member);
    LeaseTerms.changed(member.server, request)
        .ifPresent(
            changed -> {
              member.server = changed;
              roster.put(changed, ++revision);
            });
    return HeartbeatResponse.newBuilder().setKnown(true).build();
  }

  @Override
  public synchronized void deregister(String name, String instance) {
    known(name)
        .filter(server -> server.getInstance().equals(instance))
        .ifPresent(
            server -> {
              log.info("{} left", RegistrationClaim.describe(server));
              forget(server);
              metrics.deregistered();
            });
  }

  @Override
  public Roster roster() {
    return roster;
  }

  @Override
  public void close() {
    closed = true;
    roster.close();
  }

  /** Forgets those whose leases are over. */
  synchronized void sweep() {
    long now = nanoClock.getAsLong();
    long pause = now - lastSweep;
    lastSweep = now;
    // Nobody could be heard while this process itself stood still.
    long unheard = pause > terms.lease().toNanos() / 2 ? pause : 0;
    Iterator<Member> members = byName.values().iterator();
    while (members.hasNext()) {
      Member member = members.next();
      member.leaseEnd += unheard;
      if (member.leaseEnd - now <= 0) {
        members.remove();
        nameByAddress.remove(member.server.getInfo().getAddress());
        log.warn(
            "{} sent no heartbeat for {} ms: removed",
            RegistrationClaim.describe(member.server),
            terms.lease().toMillis());
        roster.remove(member.server.getInfo().getName(), ++revision);
        metrics.fellSilent();
      }
    }
  }

  private boolean sweepSoon() throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(terms.lease().dividedBy(20).toNanos());
    sweep();
    return !closed;
  }

  private Optional<Server> known(String name) {
    return Optional.ofNullable(byName.get(name)).map(member -> member.server);
  }

  private void renew(Member member) {
    member.leaseEnd = nanoClock.getAsLong() + terms.lease().toNanos();
  }

  private void forget(Server server) {
    byName.remove(server.getInfo().getName());
    nameByAddress.remove(server.getInfo().getAddress());
    roster.remove(server.getInfo().getName(), ++revision);
  }
}
