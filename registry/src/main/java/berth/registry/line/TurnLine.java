package berth.registry.line;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.StreamFeed;
import berth.v1.Ahead;
import berth.v1.AwaitTurnRequest;
import berth.v1.AwaitTurnResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * Gives everyone a turn, first come first served. Who shares no server with anybody before it has
 * its turn at once; who has it keeps it until it leaves.
 *
 * <p>After a restart, and at another registry, the line forms anew out of those who say how long
 * they have waited. They do not come in their order, so nobody has its turn in the first moments of
 * the line, nor in the first moments after it came from elsewhere.
 *
 * <p>Any thread may call.
 */
public final class TurnLine {
  static final int MAX_PLACES = 10_000;
  static final int MAX_SERVERS = 500_000;
  static final Duration SETTLING = Duration.ofSeconds(2);
  private static final Duration LONGEST_WAIT = Duration.ofDays(30);

  private final LongSupplier nanoClock;
  private final long firstTurn;
  private final Set<Place> places = new LinkedHashSet<>();
  // Of all places together.
  private int servers;
  private long entered;

  /**
   * @param nanoClock by which those in line have come
   */
  public TurnLine(LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
    this.firstTurn = nanoClock.getAsLong() + SETTLING.toNanos();
  }

  /** How many are in the line, those who have their turn included. */
  public synchronized int length() {
    return places.size();
  }

  /**
   * Takes a place in the line, which is held until {@link Place#leave}.
   *
   * @param request one that keeps to the rules of the wire contract
   * @throws BerthException EXHAUSTED if the line is as long as it may be
   */
  public synchronized Place enter(AwaitTurnRequest request) {
    Place place = new Place(request);
    if (places.size() >= MAX_PLACES) {
      throw exhausted(places.size() + " clusters are queued already, the maximum");
    }
    if (servers + place.servers.size() > MAX_SERVERS) {
      throw exhausted(
          "queued clusters name " + servers + " servers already, at most " + MAX_SERVERS);
    }
    for (Place other : places) {
      if (other.sharesWith(place)) {
        if (other.isBefore(place)) {
          place.gotBehind(other);
        } else {
          other.gotBehind(place);
        }
      }
    }
    places.add(place);
    servers += place.servers.size();
    place.settle();
    return place;
  }

  private static Duration waited(AwaitTurnRequest request) {
    boolean tooLong = request.getWaited().getSeconds() >= LONGEST_WAIT.toSeconds();
    return tooLong ? LONGEST_WAIT : Messages.duration(request.getWaited());
  }

  private static BerthException exhausted(String message) {
    return new BerthException(Reason.EXHAUSTED, message);
  }

  /** A place in the line, and what is told of it: the newest state, each once. */
  public final class Place implements StreamFeed.Source<AwaitTurnResponse> {
    private final Set<String> servers;
    private final Ahead asToldToOthers;
    private final long came;
    private final long number = ++entered;
    private final long earliestTurn;
    private Runnable listener = () -> {};
    private int ahead;
    // The last of those ahead; null if there is none, or if that is found out when it is told.
    private Place next;
    private boolean turn;
    private AwaitTurnResponse told;

    private Place(AwaitTurnRequest request) {
      servers = Set.copyOf(request.getServersList());
      Duration waited = waited(request);
      long now = nanoClock.getAsLong();
      came = now - waited.toNanos();
      long settled = waited.isZero() ? now : now + SETTLING.toNanos();
      earliestTurn = settled - firstTurn > 0 ? settled : firstTurn;
      asToldToOthers =
          Ahead.newBuilder()
              .setOwner(request.getOwner())
              .setPurpose(request.getPurpose())
              .setSince(Messages.timestamp(Instant.now().minus(waited)))
              .build();
    }

    /** Runs {@code listener} whenever there may be something new to tell. It must not wait. */
    public void listen(Runnable listener) {
      synchronized (TurnLine.this) {
        this.listener = listener;
      }
    }

    /** In how many nanoseconds {@link #settle} is to be called; empty if there is no need. */
    public OptionalLong settlesIn() {
      long left = earliestTurn - nanoClock.getAsLong();
      return left > 0 ? OptionalLong.of(left) : OptionalLong.empty();
    }

    /** Gives it its turn if nobody is ahead, and nobody may come any more who would be. */
    public void settle() {
      synchronized (TurnLine.this) {
        if (ahead == 0 && settlesIn().isEmpty()) {
          turn = true;
          listener.run();
        }
      }
    }

    /** Leaves the line, for whatever reason; a second time is harmless. */
    public void leave() {
      synchronized (TurnLine.this) {
        if (!places.remove(this)) {
          return;
        }
        TurnLine.this.servers -= servers.size();
        for (Place other : places) {
          if (isBefore(other) && other.sharesWith(this)) {
            other.isRidOf(this);
          }
        }
      }
    }

    @Override
    public AwaitTurnResponse next() {
      synchronized (TurnLine.this) {
        AwaitTurnResponse state = state();
        if (state.equals(told)) {
          return null;
        }
        told = state;
        return state;
      }
    }

    @Override
    public boolean ended() {
      return false;
    }

    private AwaitTurnResponse state() {
      if (turn) {
        return AwaitTurnResponse.newBuilder().setTurn(true).build();
      }
      if (ahead > 0 && next == null) {
        next = lastAhead();
      }
      Ahead.Builder state = next == null ? Ahead.newBuilder() : next.asToldToOthers.toBuilder();
      return AwaitTurnResponse.newBuilder().setAhead(state.setCount(ahead)).build();
    }

    private Place lastAhead() {
      Place last = null;
      for (Place other : places) {
        if (other != this
            && other.isBefore(this)
            && (last == null || last.isBefore(other))
            && other.sharesWith(this)) {
          last = other;
        }
      }
      return last;
    }

    private void gotBehind(Place other) {
      if (ahead == 0 || next != null && next.isBefore(other)) {
        next = other;
      }
      ahead++;
      listener.run();
    }

    private void isRidOf(Place other) {
      ahead--;
      if (next == other) {
        next = null;
      }
      listener.run();
      settle();
    }

    private boolean sharesWith(Place other) {
      // Of two sets it goes through the second.
      return servers.size() > other.servers.size()
          ? !Collections.disjoint(servers, other.servers)
          : !Collections.disjoint(other.servers, servers);
    }

    // Nothing comes before a turn that was given, however long it has waited.
    private boolean isBefore(Place other) {
      if (turn != other.turn) {
        return turn;
      }
      return came == other.came ? number < other.number : came - other.came < 0;
    }
  }
}
