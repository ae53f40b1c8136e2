package berth.server.overview;

import berth.v1.GpuReport;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.RecentRuns;
import berth.v1.Reservation;
import berth.v1.Run;
import berth.v1.WatchOverviewResponse;
import com.google.protobuf.Timestamp;

/**
 * What was seen of a server at one moment. A part that has not changed since the moment before is
 * the same object, so that nobody has to compare it again.
 */
record OverviewSnapshot(
    GpuReport report,
    ListReservationsResponse reservations,
    RecentRuns runs,
    ListClustersResponse clusters) {

  static final OverviewSnapshot NONE = new OverviewSnapshot(null, null, null, null);

  /** The same with the parts of {@code before} where nothing has changed that counts. */
  OverviewSnapshot since(OverviewSnapshot before) {
    if (before == NONE) {
      return this;
    }
    Timestamp sampled = report.getSampledAt();
    return new OverviewSnapshot(
        sampled.equals(before.report.getSampledAt())
                && report.getGpusList().equals(before.report.getGpusList())
                && report.getProblem().equals(before.report.getProblem())
            ? before.report
            : report,
        reservations.equals(before.reservations) ? before.reservations : reservations,
        silent(runs).equals(silent(before.runs)) ? before.runs : runs,
        clusters.equals(before.clusters) ? before.clusters : clusters);
  }

  /** What somebody is not told yet who was told {@code told} last; null if there is nothing. */
  WatchOverviewResponse news(OverviewSnapshot told) {
    if (this == NONE) {
      return null;
    }
    WatchOverviewResponse.Builder news = WatchOverviewResponse.newBuilder();
    if (report != told.report) {
      news.setReport(report);
    }
    if (reservations != told.reservations) {
      news.setReservations(reservations);
    }
    if (runs != told.runs) {
      news.setRuns(runs);
    }
    if (clusters != told.clusters) {
      news.setClusters(clusters);
    }
    WatchOverviewResponse response = news.build();
    return response.equals(WatchOverviewResponse.getDefaultInstance()) ? null : response;
  }

  /** Without the time that is left of reservations, which is another one whenever one looks. */
  static ListReservationsResponse timeless(ListReservationsResponse reservations) {
    ListReservationsResponse.Builder timeless = reservations.toBuilder();
    timeless.getReservationsBuilderList().forEach(Reservation.Builder::clearRemaining);
    return timeless.build();
  }

  // A program that prints must not have everything told of its server over and over.
  private static RecentRuns silent(RecentRuns runs) {
    RecentRuns.Builder silent = runs.toBuilder();
    for (Run.Builder run : silent.getRunsBuilderList()) {
      run.clearOutputBytes();
      if (run.hasReservation()) {
        run.getReservationBuilder().clearRemaining();
      }
    }
    return silent.build();
  }
}
