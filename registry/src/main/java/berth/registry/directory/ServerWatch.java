package berth.registry.directory;

import berth.registry.directory.Roster.Change;
import berth.registry.directory.Roster.Mark;
import berth.registry.directory.Roster.Position;
import berth.rpc.BerthException;
import berth.v1.ServerFilter;
import berth.v1.WatchServersResponse;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What one watcher is told: the servers that pass its filter, then what changes among them.
 * Remembers nothing but its place, so that a watcher that does not read costs nothing. To be asked
 * by one thread at a time.
 */
public final class ServerWatch {
  private static final int MAX_ELEMENTS = 200;
  // What a watcher that stops reading leaves in the buffers of its connection is not much more.
  private static final int MAX_BYTES = 64 << 10;

  private final Roster roster;
  private final ServerQuery query;

  // Whose revisions these are, the last of them that was told whole, and the last change of all.
  private String epoch;
  private long told;
  private Mark last;
  // Whether the last message promised that more follows.
  private boolean midway;
  // While the servers are told one after the other: the last name, and the revision before that.
  private boolean listing;
  private String lastName = "";
  private long listedSince;

  /**
   * @param afterRevision where an earlier watch left off; empty for all from the beginning
   * @throws BerthException INVALID if that is no revision
   */
  public ServerWatch(Roster roster, ServerFilter filter, String afterRevision) {
    this.roster = roster;
    this.query = ServerQuery.of(filter);
    if (afterRevision.isEmpty()) {
      listAnew();
    } else {
      Position position = Position.parse(afterRevision);
      if (roster.knowsChangesAfter(position)) {
        epoch = position.epoch();
        toldAllOf(position.revision());
      } else {
        listAnew();
      }
    }
  }

  /** The next message; null if there is nothing to tell at present. */
  public WatchServersResponse next() {
    if (!listing) {
      long before = told;
      WatchServersResponse changes = nextChanges();
      // Asked afterwards, when it holds for all that was read.
      if (roster.knowsChangesAfter(position(before))) {
        return changes;
      }
      listAnew();
    }
    return nextServers();
  }

  private void listAnew() {
    listing = true;
    lastName = "";
    Position now = roster.position();
    epoch = now.epoch();
    listedSince = now.revision();
  }

  private WatchServersResponse nextServers() {
    WatchServersResponse.Builder response =
        WatchServersResponse.newBuilder().setReset(lastName.isEmpty());
    int bytes = 0;
    for (Listed listed : roster.after(lastName)) {
      if (query.matches(listed)) {
        if (response.getServersCount() >= MAX_ELEMENTS || bytes >= MAX_BYTES) {
          return response.build();
        }
        response.addServers(listed.server());
        bytes += listed.server().getSerializedSize();
      }
      lastName = listed.name();
    }
    listing = false;
    toldAllOf(listedSince);
    return complete(response);
  }

  private WatchServersResponse nextChanges() {
    while (true) {
      // Before the look, or a change between the two would be counted as told.
      long present = roster.position().revision();
      List<Change> changes = roster.changesAfter(last, MAX_ELEMENTS);
      WatchServersResponse.Builder response = WatchServersResponse.newBuilder();
      int taken = 0;
      // A server that changes just now may be met twice.
      Map<String, Change> newest = new LinkedHashMap<>();
      for (int bytes = 0; taken < changes.size() && bytes < MAX_BYTES; taken++) {
        Change change = changes.get(taken);
        newest.put(change.name(), change);
        bytes += change.listed().map(listed -> listed.server().getSerializedSize()).orElse(0);
      }
      newest.values().forEach(change -> add(change, response));
      boolean all = taken == changes.size() && taken < MAX_ELEMENTS;
      boolean none = response.getServersCount() + response.getRemovedCount() == 0;
      if (!all) {
        last = changes.get(taken - 1).mark();
        if (!none) {
          midway = true;
          return response.build();
        }
      } else {
        long lastRevision = changes.isEmpty() ? present : changes.get(taken - 1).revision();
        toldAllOf(Math.max(told, Math.max(present, lastRevision)));
        return none && !midway ? null : complete(response);
      }
    }
  }

  private void toldAllOf(long revision) {
    told = revision;
    last = Mark.endOf(revision);
  }

  private void add(Change change, WatchServersResponse.Builder response) {
    if (change.listed().isEmpty()) {
      response.addRemoved(change.name());
      return;
    }
    Listed listed = change.listed().get();
    if (query.matches(listed)) {
      response.addServers(listed.server());
    } else if (query.mayHaveMatched(listed, told)) {
      response.addRemoved(change.name());
    }
  }

  private WatchServersResponse complete(WatchServersResponse.Builder response) {
    midway = false;
    return response.setComplete(true).setRevision(position(told).toString()).build();
  }

  private Position position(long revision) {
    return new Position(epoch, revision);
  }
}
