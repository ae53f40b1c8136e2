package berth.registry.directory;

import berth.registry.directory.Roster.Position;
import berth.rpc.BerthException;
import berth.rpc.Vitals;
import berth.v1.Server;
import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.common.exception.CompactedException;
import io.etcd.jetcd.kv.GetResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.OptionsUtil;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import io.etcd.jetcd.watch.WatchResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps a roster as etcd has it: loads all servers, then watches them. A watch that ends, or no
 * longer follows what etcd says of itself, is made again where it ended, at the member that
 * answers; if the changes since then are compacted, all is loaded again.
 *
 * <p>jetcd would resume a broken watch on its own, but from a revision that may be after events
 * that it never passed on: its watches are used until their first failure only.
 */
final class EtcdFeed implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(EtcdFeed.class);

  private static final int PAGE = 500;
  private static final Duration BETWEEN_CHECKS = Duration.ofMillis(500);
  private static final Duration BETWEEN_WATCHES = Duration.ofMillis(50);
  private static final Duration MAX_LAG = Duration.ofSeconds(2);

  private final EtcdMembers members;
  private final EtcdKeys keys;
  private final Roster roster;
  private final Consumer<String> gone;
  private final Thread thread;
  // Of the thread alone; null while nothing is watched.
  private Following following;
  private boolean away;
  private volatile boolean missedChanges;
  private volatile boolean ready;
  private volatile boolean closed;

  /**
   * @param gone told the names of servers that are not there any more, when they are seen to go;
   *     must not block
   * @param vitals watches the thread that follows etcd
   */
  EtcdFeed(
      EtcdMembers members, EtcdKeys keys, Roster roster, Consumer<String> gone, Vitals vitals) {
    this.members = members;
    this.keys = keys;
    this.roster = roster;
    this.gone = gone;
    thread = vitals.start("etcd-feed", this::followOn);
  }

  /** Whether the roster has been filled. */
  boolean isReady() {
    return ready;
  }

  @Override
  public void close() {
    closed = true;
    thread.interrupt();
  }

  /** Begins to watch, or looks whether the watch is still of use. */
  private boolean followOn() throws InterruptedException {
    boolean good = false;
    try {
      if (following == null) {
        load();
        if (away) {
          log.info("etcd answers again; {} servers are known", roster.size());
          away = false;
        }
        following = new Following(members.current());
        good = true;
      } else {
        good = following.isOfUse();
      }
    } catch (BerthException e) {
      if (!away && !closed) {
        log.warn(
            "{}; retrying, {}",
            e.getMessage(),
            ready ? "keeping the known servers meanwhile" : "no servers are known yet");
      }
      away = true;
    } catch (RuntimeException e) {
      // Such as changes that were compacted while they were loaded.
      log.warn("watching etcd failed; starting again", e);
    } finally {
      if ((!good || closed) && following != null) {
        following.close();
        following = null;
      }
    }
    if (!good && !closed) {
      TimeUnit.NANOSECONDS.sleep(BETWEEN_WATCHES.toNanos());
    }
    return !closed;
  }

  /**
   * Where etcd is now, by the word of a majority of its members. The epoch is a value of ours: the
   * id of the cluster stays the same when its data is deleted.
   */
  private Position head() {
    while (true) {
      GetResponse response = members.callThough(client -> client.getKVClient().get(keys.epoch()));
      if (!response.getKvs().isEmpty()) {
        return new Position(
            EtcdKeys.text(response.getKvs().get(0).getValue()), response.getHeader().getRevision());
      }
      Cmp isAbsent = new Cmp(keys.epoch(), Cmp.Op.EQUAL, CmpTarget.createRevision(0));
      Op put =
          Op.put(keys.epoch(), EtcdKeys.bytes(UUID.randomUUID().toString()), PutOption.DEFAULT);
      members.callThough(client -> client.getKVClient().txn().If(isAbsent).Then(put).commit());
    }
  }

  /** Whether etcd is still the one from which {@code known} was known before. */
  private static boolean continues(Position known, Position head) {
    return head.epoch().equals(known.epoch()) && head.revision() >= known.revision();
  }

  private void load() {
    Position known = roster.position();
    Position head = head();
    boolean anew = !ready || !continues(known, head);
    if (!anew && !missedChanges) {
      return;
    }
    if (ready && anew) {
      log.warn("etcd was replaced or has lost its newest changes; loading it again");
    }
    List<Server> servers = servers(head.revision());
    if (anew) {
      roster.beginAt(head, servers);
    } else {
      roster.catchUp(servers, head.revision());
    }
    missedChanges = false;
    ready = true;
    log.info("{} servers are known at revision {} of etcd", servers.size(), head.revision());
  }

  private List<Server> servers(long revision) {
    List<Server> servers = new ArrayList<>();
    ByteSequence end = OptionsUtil.prefixEndOf(keys.servers());
    ByteSequence from = keys.servers();
    while (true) {
      ByteSequence start = from;
      GetOption option =
          GetOption.builder().withRange(end).withRevision(revision).withLimit(PAGE).build();
      GetResponse page = members.callThough(client -> client.getKVClient().get(start, option));
      page.getKvs().forEach(pair -> server(pair).ifPresent(servers::add));
      if (!page.isMore()) {
        return servers;
      }
      ByteSequence last = page.getKvs().get(page.getKvs().size() - 1).getKey();
      from = last.concat(ByteSequence.from(new byte[1]));
    }
  }

  /** A watch, from the roster's revision to its first failure. */
  private final class Following implements Watch.Listener, AutoCloseable {
    private final Client client;
    private final Watch.Watcher watcher;
    private final CountDownLatch ended = new CountDownLatch(1);
    // What the member has said of itself in this watch.
    private volatile long seen;
    private long expected;
    private long since = System.nanoTime();

    Following(Client client) {
      this.client = client;
      this.watcher =
          client
              .getWatchClient()
              .watch(
                  keys.servers(),
                  WatchOption.builder()
                      .isPrefix(true)
                      .withRevision(roster.position().revision() + 1)
                      .withRequireLeader(true)
                      .build(),
                  this);
    }

    /** Waits a moment, and looks whether it has not ended and follows what etcd says of itself. */
    boolean isOfUse() throws InterruptedException {
      if (ended.await(BETWEEN_CHECKS.toNanos(), TimeUnit.NANOSECONDS)) {
        return false;
      }
      // In this order: meanwhile the roster goes on.
      Position known = roster.position();
      Position head = head();
      if (!continues(known, head)) {
        return false;
      }
      if (client != members.current()) {
        log.info("watching etcd at another member");
        return false;
      }
      if (seen >= expected) {
        expected = head.revision();
        since = System.nanoTime();
      } else if (System.nanoTime() - since > MAX_LAG.toNanos()) {
        log.warn("the etcd watch went silent; watching again");
        return false;
      }
      watcher.requestProgress();
      return true;
    }

    @Override
    public synchronized void onNext(WatchResponse response) {
      if (ended.getCount() == 0) {
        return;
      }
      List<WatchEvent> events = response.getEvents();
      for (int i = 0; i < events.size(); ) {
        // What happened together is told together.
        long revision = events.get(i).getKeyValue().getModRevision();
        Map<String, Optional<Server>> changed = new HashMap<>();
        for (; i < events.size() && events.get(i).getKeyValue().getModRevision() == revision; i++) {
          KeyValue pair = events.get(i).getKeyValue();
          boolean put = events.get(i).getEventType() == WatchEvent.EventType.PUT;
          changed.put(keys.name(pair.getKey()), put ? server(pair) : Optional.empty());
        }
        changed.forEach(this::tell);
        roster.apply(changed, revision);
      }
      seen = Math.max(seen, response.getHeader().getRevision());
    }

    private void tell(String name, Optional<Server> now) {
      Optional<Server> before = roster.find(name).map(Listed::server);
      if (now.isPresent() && before.isEmpty()) {
        log.info("{} joined", RegistrationClaim.describe(now.get()));
      } else if (now.isEmpty() && before.isPresent()) {
        log.info("{} left or timed out", RegistrationClaim.describe(before.get()));
        gone.accept(name);
      }
    }

    @Override
    public synchronized void onError(Throwable failure) {
      if (ended.getCount() > 0) {
        missedChanges |= failure instanceof CompactedException;
        log.info("the etcd watch ended; watching again: {}", failure.getMessage());
        ended.countDown();
      }
    }

    @Override
    public synchronized void onCompleted() {
      ended.countDown();
    }

    @Override
    public void close() {
      // First, so that nothing comes after what follows.
      onCompleted();
      watcher.close();
    }
  }

  private Optional<Server> server(KeyValue pair) {
    return keys.server(pair.getKey(), pair.getValue());
  }
}
