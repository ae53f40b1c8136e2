package berth.registry.directory;

import berth.registry.directory.Roster.Change;
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
  private static final int MAX_BYTES = 1 << 20;

  private final Roster roster;
  private final ServerQuery query;

  // The last revision that was told whole.
  private long told;
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
        told = position.revision();
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
    listedSince = roster.position().revision();
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
    told = listedSince;
    return complete(response);
  }

  private WatchServersResponse nextChanges() {
    while (true) {
      // Before the look, or a change between the two would be counted as told.
      long present = roster.position().revision();
      List<Change> changes = roster.changesAfter(told, MAX_ELEMENTS);
      if (changes.isEmpty()) {
        told = Math.max(told, present);
        return null;
      }
      WatchServersResponse.Builder response = WatchServersResponse.newBuilder();
      // A server that changes just now may be met twice.
      Map<String, Change> newest = new LinkedHashMap<>();
      changes.forEach(change -> newest.put(change.name(), change));
      newest.values().forEach(change -> add(change, response));
      told = changes.get(changes.size() - 1).revision();
      if (response.getServersCount() + response.getRemovedCount() > 0) {
        return complete(response);
      }
    }
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
    return response.setComplete(true).setRevision(position(told).toString()).build();
  }

  private Position position(long revision) {
    return new Position(roster.position().epoch(), revision);
  }
}
