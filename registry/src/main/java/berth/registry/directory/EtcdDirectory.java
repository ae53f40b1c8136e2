package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.v1.HeartbeatRequest;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.Server;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.kv.TxnResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.PutOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps everything in etcd, so that any number of registries are one: none of them knows anything
 * that etcd does not. Each server has a lease of etcd's, which is prolonged only when a heartbeat
 * arrives.
 */
public final class EtcdDirectory implements Directory {
  private static final Logger log = LoggerFactory.getLogger(EtcdDirectory.class);
  // Each time somebody else was faster.
  private static final int MAX_ATTEMPTS = 100;

  /** What etcd has under the key of a server. */
  private record Entry(Server server, long revision, long lease) {}

  private final LeaseTerms terms;
  private final DirectoryMetrics metrics;
  private final HeardHere heard;
  private final EtcdKeys keys;
  private final EtcdMembers members;
  private final Roster roster;
  private final EtcdFeed feed;
  private final Optional<EtcdCompaction> compaction;

  /**
   * Returns at once, also if etcd is not there: it is looked for until it is.
   *
   * @param terms the lease is rounded up to whole seconds, as etcd counts them
   * @param endpoints of the members, as {@code http://HOST:PORT} or {@code HOST:PORT}
   * @param prefix what all keys begin with
   * @param compaction how often etcd is told to forget old revisions; zero: never
   * @throws BerthException INVALID if one of these is not what it should be
   */
  public EtcdDirectory(
      LeaseTerms terms,
      List<String> endpoints,
      String prefix,
      Duration compaction,
      DirectoryMetrics metrics,
      Vitals vitals) {
    Duration lease = Duration.ofSeconds(terms.lease().plusSeconds(1).minusNanos(1).toSeconds());
    this.terms = new LeaseTerms(lease, terms.maxServers());
    this.metrics = metrics;
    this.heard = new HeardHere(lease, System::nanoTime);
    this.keys = new EtcdKeys(prefix);
    this.members = new EtcdMembers(endpoints);
    this.roster = new Roster("", vitals);
    this.feed = new EtcdFeed(members, keys, roster, this::gone, vitals);
    this.compaction =
        compaction.isZero()
            ? Optional.empty()
            : Optional.of(new EtcdCompaction(members, keys, compaction, vitals));
  }

  @Override
  public RegisterResponse register(RegisterRequest request) {
    Optional<Long> lease = Optional.empty();
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      Claimed claimed = read(request);
      RegistrationClaim claim =
          RegistrationClaim.decide(
              request,
              claimed.byName.map(Entry::server),
              claimed.byAddress.map(Entry::server),
              System.currentTimeMillis());
      if (claimed.byName.isEmpty() && roster.size() >= terms.maxServers()) {
        throw new BerthException(
            Reason.EXHAUSTED, roster.size() + " servers are registered, the maximum");
      }
      if (lease.isEmpty()) {
        lease = Optional.of(grant());
      }
      try {
        String name = request.getInfo().getName();
        List<String> losers =
            claim.replaced().stream()
                .map(loser -> loser.getInfo().getName())
                .filter(loser -> !loser.equals(name))
                .toList();
        // Before they are seen to be gone.
        losers.forEach(heard::gone);
        if (write(request, claim, claimed, lease.get())) {
          heard.heard(name);
          losers.forEach(loser -> metrics.replaced());
          claim.replaced().forEach(loser -> log.warn("{}", claim.loss(loser, request)));
          long own = lease.get();
          claimed.leases().filter(old -> old != own).forEach(this::end);
          return terms.response(Long.toString(own), claim.generation());
        }
      } catch (EtcdException e) {
        // The lease is over already: etcd was slow.
        lease = Optional.empty();
      }
    }
    throw contested(request.getInfo().getName());
  }

  @Override
  public HeartbeatResponse heartbeat(HeartbeatRequest request) {
    HeartbeatResponse answer = take(request);
    if (answer.getKnown()) {
      heard.heard(request.getName());
    }
    return answer;
  }

  private HeartbeatResponse take(HeartbeatRequest request) {
    boolean news = request.hasInfo() || request.hasStatus();
    if (!news && isListed(request) && prolong(parseLease(request.getLeaseId()))) {
      return HeartbeatResponse.newBuilder().setKnown(true).build();
    }
    // The roster may be behind, and the lease may have been replaced: etcd decides.
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      Optional<Entry> found = find(request.getName());
      if (found.isPresent() && !found.get().server.getInstance().equals(request.getInstance())) {
        return HeartbeatResponse.newBuilder()
            .setReplacedBy(RegistrationClaim.describe(found.get().server))
            .build();
      }
      if (found.isEmpty() || !prolong(found.get().lease)) {
        return HeartbeatResponse.newBuilder().setUnknown(true).build();
      }
      Optional<Server> changed = LeaseTerms.changed(found.get().server, request);
      if (changed.isEmpty() || change(found.get(), changed.get())) {
        return HeartbeatResponse.newBuilder().setKnown(true).build();
      }
    }
    throw contested(request.getName());
  }

  @Override
  public void deregister(String name, String instance) {
    // Its lease has its keys and nothing else, so what was not read cannot be removed.
    find(name)
        .filter(entry -> entry.server.getInstance().equals(instance))
        .ifPresent(
            entry -> {
              // Before it is seen to be gone.
              heard.gone(name);
              try {
                members.call(client -> client.getLeaseClient().revoke(entry.lease));
                metrics.deregistered();
              } catch (EtcdException e) {
                // It was over.
              }
            });
  }

  private void gone(String name) {
    if (heard.gone(name)) {
      metrics.fellSilent();
    }
  }

  @Override
  public Roster roster() {
    if (!feed.isReady()) {
      throw new BerthException(Reason.UNAVAILABLE, "this registry has not reached etcd yet");
    }
    return roster;
  }

  @Override
  public void close() {
    compaction.ifPresent(EtcdCompaction::close);
    feed.close();
    members.close();
    roster.close();
  }

  /** Who has the name and the address that are claimed, and since which revisions; 0 for nobody. */
  private record Claimed(
      Optional<Entry> byName, Optional<Entry> byAddress, long nameRevision, long addressRevision) {
    LongStream leases() {
      return Stream.concat(byName.stream(), byAddress.stream()).mapToLong(Entry::lease);
    }
  }

  private Claimed read(RegisterRequest request) {
    String name = request.getInfo().getName();
    Op.GetOp byName = Op.get(keys.server(name), GetOption.DEFAULT);
    Op.GetOp byAddress = Op.get(keys.address(request.getInfo().getAddress()), GetOption.DEFAULT);
    TxnResponse response =
        members.call(client -> client.getKVClient().txn().Then(byName, byAddress).commit());
    Optional<KeyValue> nameKey = first(response.getGetResponses().get(0));
    Optional<KeyValue> addressKey = first(response.getGetResponses().get(1));
    return new Claimed(
        nameKey.flatMap(this::entry),
        addressKey
            .map(pair -> EtcdKeys.text(pair.getValue()))
            .filter(other -> !other.equals(name))
            .flatMap(this::find),
        nameKey.map(KeyValue::getModRevision).orElse(0L),
        addressKey.map(KeyValue::getModRevision).orElse(0L));
  }

  /** Writes what was decided, unless what it was decided on has changed. */
  private boolean write(
      RegisterRequest request, RegistrationClaim claim, Claimed claimed, long lease) {
    String name = request.getInfo().getName();
    String address = request.getInfo().getAddress();
    List<Cmp> unchanged = new ArrayList<>();
    unchanged.add(isAt(keys.server(name), claimed.nameRevision));
    unchanged.add(isAt(keys.address(address), claimed.addressRevision));
    PutOption underLease = PutOption.builder().withLeaseId(lease).build();
    Server server = claim.server(request, claimed.byName.map(Entry::server));
    List<Op> changes = new ArrayList<>();
    changes.add(Op.put(keys.server(name), bytes(server), underLease));
    changes.add(Op.put(keys.address(address), EtcdKeys.bytes(name), underLease));
    claimed
        .byName
        .map(entry -> entry.server.getInfo().getAddress())
        .filter(old -> !old.equals(address))
        .ifPresent(old -> changes.add(Op.delete(keys.address(old), DeleteOption.DEFAULT)));
    claimed.byAddress.ifPresent(
        entry -> {
          ByteSequence key = keys.server(entry.server.getInfo().getName());
          unchanged.add(isAt(key, entry.revision));
          changes.add(Op.delete(key, DeleteOption.DEFAULT));
        });
    return members
        .call(
            client ->
                client
                    .getKVClient()
                    .txn()
                    .If(unchanged.toArray(Cmp[]::new))
                    .Then(changes.toArray(Op[]::new))
                    .commit())
        .isSucceeded();
  }

  private boolean change(Entry entry, Server changed) {
    ByteSequence key = keys.server(changed.getInfo().getName());
    PutOption underLease = PutOption.builder().withLeaseId(entry.lease).build();
    try {
      return members
          .call(
              client ->
                  client
                      .getKVClient()
                      .txn()
                      .If(isAt(key, entry.revision))
                      .Then(Op.put(key, bytes(changed), underLease))
                      .commit())
          .isSucceeded();
    } catch (EtcdException e) {
      // The lease has just ended.
      return false;
    }
  }

  private boolean isListed(HeartbeatRequest request) {
    return roster
        .find(request.getName())
        .filter(listed -> listed.server().getInstance().equals(request.getInstance()))
        .isPresent();
  }

  private Optional<Entry> find(String name) {
    ByteSequence key = keys.server(name);
    return first(members.call(client -> client.getKVClient().get(key))).flatMap(this::entry);
  }

  private long grant() {
    return members.call(client -> client.getLeaseClient().grant(terms.lease().toSeconds())).getID();
  }

  /** Returns whether there was still something to prolong. */
  private boolean prolong(long lease) {
    try {
      return members.call(client -> client.getLeaseClient().keepAliveOnce(lease)).getTTL() > 0;
    } catch (EtcdException e) {
      return false;
    }
  }

  // Who still has it is told at its next heartbeat. If this fails, the lease ends by itself.
  private void end(long lease) {
    members.current().getLeaseClient().revoke(lease);
  }

  private static Optional<KeyValue> first(GetResponse response) {
    return response.getKvs().stream().findFirst();
  }

  private Optional<Entry> entry(KeyValue pair) {
    return keys.server(pair.getKey(), pair.getValue())
        .map(server -> new Entry(server, pair.getModRevision(), pair.getLease()));
  }

  private static Cmp isAt(ByteSequence key, long revision) {
    return new Cmp(key, Cmp.Op.EQUAL, CmpTarget.modRevision(revision));
  }

  private static ByteSequence bytes(Server server) {
    return ByteSequence.from(server.toByteString());
  }

  private static long parseLease(String text) {
    try {
      return Long.parseLong(text);
    } catch (NumberFormatException e) {
      // Not one of etcd's: it prolongs nothing.
      return 0;
    }
  }

  private static BerthException contested(String name) {
    return new BerthException(
        Reason.UNAVAILABLE, "too many concurrent writes to " + name + " in etcd; try again");
  }
}
