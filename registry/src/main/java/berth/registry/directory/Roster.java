package berth.registry.directory;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.v1.Server;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.locks.LockSupport;

/**
 * Who is known, and what changed since when.
 *
 * <p>Every change has a revision, later ones a higher one. Of each server only the newest change is
 * kept, and of those that are gone a bounded number: so a reader who remembers a revision can be
 * told all that is different since, whatever its pace, at no cost but its own.
 *
 * <p>Any thread may read, without waiting for anybody. Changes come from the {@link Directory}.
 */
public final class Roster implements AutoCloseable {
  private static final int MAX_GONE = 10_000;
  // Many changes at once are one piece of news.
  private static final long PAUSE_BETWEEN_NEWS_NANOS = 5_000_000;

  /** A mark in the course of changes, as callers keep it. */
  public record Position(String epoch, long revision) {
    @Override
    public String toString() {
      return epoch + ":" + revision;
    }

    /**
     * @throws BerthException INVALID if it is none
     */
    public static Position parse(String text) {
      int colon = text.lastIndexOf(':');
      try {
        return new Position(text.substring(0, colon), Long.parseLong(text.substring(colon + 1)));
      } catch (NumberFormatException | StringIndexOutOfBoundsException e) {
        throw new BerthException(Reason.INVALID, "'" + text + "' is no revision", e);
      }
    }
  }

  private record Gap(long start, long end) {
    boolean contains(long revision) {
      return revision > start && revision < end;
    }
  }

  /** A change, by what orders it among the others. */
  record Mark(long revision, String name) {
    // No name comes after this one.
    private static final String END = "\uffff";

    /** The last of all changes of a revision. */
    static Mark endOf(long revision) {
      return new Mark(revision, END);
    }
  }

  /**
   * The newest change of a server.
   *
   * @param listed the server; empty if it is gone
   */
  record Change(long revision, String name, Optional<Listed> listed) {
    Mark mark() {
      return new Mark(revision, name);
    }

    private static final Comparator<Change> ORDER =
        Comparator.comparingLong(Change::revision).thenComparing(Change::name);
  }

  private final NavigableMap<String, Listed> byName = new ConcurrentSkipListMap<>();
  private final NavigableMap<Change, Change> changes = new ConcurrentSkipListMap<>(Change.ORDER);
  private final Map<String, Change> newest = new HashMap<>();
  private final NavigableMap<Change, Change> gone = new ConcurrentSkipListMap<>(Change.ORDER);
  // Read without a lock; written after what they stand for.
  private volatile Position position;
  private volatile long forgotten;
  // Between these two the changes were missed.
  private volatile Gap gap = new Gap(0, 0);

  private final Set<Runnable> listeners = ConcurrentHashMap.newKeySet();
  private final Thread newsThread;
  private Position told;
  private volatile boolean closed;

  /**
   * @param epoch what tells the revisions of this roster from those of others
   * @param vitals watches the thread that tells listeners
   */
  Roster(String epoch, Vitals vitals) {
    this.position = new Position(epoch, 0);
    newsThread = vitals.start("roster-news", this::tellNews);
  }

  /** The newest revision. */
  public Position position() {
    return position;
  }

  public int size() {
    return byName.size();
  }

  Optional<Listed> find(String name) {
    return Optional.ofNullable(byName.get(name));
  }

  /** All servers whose names come after {@code name}, by name. */
  Iterable<Listed> after(String name) {
    return byName.tailMap(name, false).values();
  }

  /** All servers, by name. */
  Iterable<Listed> all() {
    return byName.values();
  }

  /** Whether all changes after {@code earlier} are still known. */
  boolean knowsChangesAfter(Position earlier) {
    return earlier.epoch.equals(position.epoch)
        && earlier.revision >= forgotten
        && !gap.contains(earlier.revision);
  }

  /** The first changes after {@code last}, in their order. */
  List<Change> changesAfter(Mark last, int atMost) {
    long until = position.revision;
    Change start = new Change(last.revision, last.name, Optional.empty());
    List<Change> found = new ArrayList<>();
    for (Change change : changes.tailMap(start, false).values()) {
      if (change.revision > until || found.size() >= atMost) {
        break;
      }
      found.add(change);
    }
    return found;
  }

  /** Calls {@code listener} soon after every change, in one thread. Run the result to end that. */
  public Runnable listen(Runnable listener) {
    listeners.add(listener);
    return () -> listeners.remove(listener);
  }

  /** Begins anew, in another epoch, with these servers; of what was before nothing is known. */
  synchronized void beginAt(Position start, Collection<Server> servers) {
    byName.clear();
    changes.clear();
    newest.clear();
    gone.clear();
    gap = new Gap(0, 0);
    forgotten = start.revision;
    servers.forEach(
        server -> note(server.getInfo().getName(), Optional.of(server), start.revision));
    position = start;
    LockSupport.unpark(newsThread);
  }

  /**
   * Goes on with these servers, after changes up to a revision were missed. Who has followed this
   * roster is told the difference; who comes from elsewhere with a revision in between cannot be.
   */
  synchronized void catchUp(Collection<Server> servers, long at) {
    forgotten = Math.max(forgotten, gap.end);
    gap = new Gap(position.revision, at);
    Set<String> names = new HashSet<>();
    for (Server server : servers) {
      String name = server.getInfo().getName();
      names.add(name);
      if (find(name).filter(listed -> listed.server().equals(server)).isEmpty()) {
        note(name, Optional.of(server), at);
      }
    }
    for (String name : List.copyOf(byName.keySet())) {
      if (!names.contains(name)) {
        note(name, Optional.empty(), at);
      }
    }
    publish(at);
  }

  /** Notes how a server is now. */
  void put(Server server, long at) {
    apply(Map.of(server.getInfo().getName(), Optional.of(server)), at);
  }

  /** Notes that a server is gone. */
  void remove(String name, long at) {
    apply(Map.of(name, Optional.empty()), at);
  }

  /**
   * Notes what changed at a revision, all of it.
   *
   * @param changed how the servers are now, by name; empty for those that are gone
   */
  synchronized void apply(Map<String, Optional<Server>> changed, long at) {
    changed.forEach((name, server) -> note(name, server, at));
    publish(at);
  }

  private void publish(long at) {
    if (at > position.revision) {
      position = new Position(position.epoch, at);
      LockSupport.unpark(newsThread);
    }
  }

  @Override
  public void close() {
    closed = true;
    LockSupport.unpark(newsThread);
  }

  private void note(String name, Optional<Server> server, long at) {
    if (server.isPresent()) {
      Listed listed = Listed.of(server.get(), at, find(name));
      byName.put(name, listed);
      note(new Change(at, name, Optional.of(listed)));
    } else if (byName.remove(name) != null) {
      note(new Change(at, name, Optional.empty()));
    }
  }

  // A reader may meet a change twice, never miss it: the new one is there before the old one goes.
  private void note(Change change) {
    changes.put(change, change);
    Change old = newest.put(change.name, change);
    if (old != null) {
      changes.remove(old);
      gone.remove(old);
    }
    if (change.listed.isEmpty()) {
      gone.put(change, change);
      if (gone.size() > MAX_GONE) {
        Change oldest = gone.firstKey();
        forgotten = oldest.revision;
        gone.remove(oldest);
        changes.remove(oldest);
        newest.remove(oldest.name);
      }
    }
  }

  private boolean tellNews() {
    Position now = position;
    if (now == told) {
      LockSupport.park();
    } else {
      told = now;
      listeners.forEach(Runnable::run);
      LockSupport.parkNanos(PAUSE_BETWEEN_NEWS_NANOS);
    }
    return !closed;
  }
}
