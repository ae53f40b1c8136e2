package berth.registry.web;

import berth.v1.GpuReport;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.RecentRuns;
import berth.v1.Server;
import berth.v1.WatchOverviewResponse;

/**
 * What is known of one server: what it told the registry, and, while somebody looks, what it shows
 * itself. Immutable.
 *
 * @param since when it came into its state, in milliseconds since 1970
 * @param why it is in that state
 */
record ServerView(
    Server server,
    State state,
    long since,
    String why,
    GpuReport report,
    ListReservationsResponse reservations,
    RecentRuns runs,
    ListClustersResponse clusters) {

  /** Whether it is there. */
  enum State {
    UP,
    /** The registry hears it, but cannot watch it. */
    UNREACHABLE,
    GONE
  }

  static ServerView of(Server server, long now) {
    return new ServerView(
        server,
        State.UP,
        now,
        "",
        GpuReport.getDefaultInstance(),
        ListReservationsResponse.getDefaultInstance(),
        RecentRuns.getDefaultInstance(),
        ListClustersResponse.getDefaultInstance());
  }

  String name() {
    return server.getInfo().getName();
  }

  ServerView with(Server newServer) {
    return new ServerView(newServer, state, since, why, report, reservations, runs, clusters);
  }

  ServerView in(State newState, long now, String newWhy) {
    return new ServerView(
        server,
        newState,
        newState == state ? since : now,
        newWhy,
        report,
        reservations,
        runs,
        clusters);
  }

  ServerView with(WatchOverviewResponse news) {
    return new ServerView(
        server,
        state,
        since,
        why,
        news.hasReport() ? news.getReport() : report,
        news.hasReservations() ? news.getReservations() : reservations,
        news.hasRuns() ? news.getRuns() : runs,
        news.hasClusters() ? news.getClusters() : clusters);
  }
}
