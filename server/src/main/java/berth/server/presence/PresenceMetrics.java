package berth.server.presence;

import berth.metrics.Counter;
import berth.metrics.Gauge;
import berth.metrics.Labelled;
import berth.metrics.Metrics;
import java.util.List;

/** The metrics of this server's registration. Any thread may call. */
final class PresenceMetrics {
  private static final Gauge REGISTERED =
      Gauge.of(
          "berth_presence_registered",
          "1 if a registry knows this server and answered its last heartbeat, else 0.");

  private final Counter answered;
  private final Counter failed;
  private final Counter forgotten;
  private final Counter replaced;
  private volatile boolean registered;

  PresenceMetrics(Metrics metrics) {
    Labelled<Counter> heartbeats =
        metrics.counters(
            "berth_presence_heartbeats_total",
            "Heartbeats to registries, by whether they were answered.",
            "outcome");
    answered = heartbeats.with("answered");
    failed = heartbeats.with("failed");
    Labelled<Counter> lost =
        metrics.counters(
            "berth_presence_leases_lost_total",
            "How often a registry no longer knew this server. replaced: another server has"
                + " its name.",
            "reason");
    forgotten = lost.with("forgotten");
    replaced = lost.with("replaced");
    metrics.gauges(List.of(REGISTERED), readings -> readings.set(REGISTERED, registered));
  }

  void registered() {
    registered = true;
  }

  /** No registry knows this server, or none answers. */
  void away() {
    registered = false;
  }

  void heartbeatAnswered() {
    answered.increment();
    registered = true;
  }

  void heartbeatFailed() {
    failed.increment();
  }

  void leaseLost(boolean toAnother) {
    registered = false;
    (toAnother ? replaced : forgotten).increment();
  }
}
