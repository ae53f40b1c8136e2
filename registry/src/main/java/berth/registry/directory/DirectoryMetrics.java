package berth.registry.directory;

import berth.metrics.Counter;
import berth.metrics.Labelled;
import berth.metrics.Metrics;
import berth.v1.HeartbeatResponse;

/** What happens to the registrations of servers, counted. Any thread may call. */
public final class DirectoryMetrics {
  private final Counter registrations;
  private final Counter known;
  private final Counter unknown;
  private final Counter outdated;
  private final Counter silent;
  private final Counter deregistered;
  private final Counter replaced;

  public DirectoryMetrics(Metrics metrics) {
    registrations =
        metrics.counter(
            "berth_registry_registrations_total", "Registrations accepted by this registry.");
    Labelled<Counter> heartbeats =
        metrics.counters(
            "berth_registry_heartbeats_total",
            "Heartbeats to this registry, by what was known of the server: known, unknown, or"
                + " replaced by another.",
            "outcome");
    known = heartbeats.with("known");
    unknown = heartbeats.with("unknown");
    outdated = heartbeats.with("replaced");
    Labelled<Counter> departures =
        metrics.counters(
            "berth_registry_departures_total",
            "Servers removed. silent: no heartbeat within the lease; of several registries, the one"
                + " with the last heartbeat counts it. deregistered: at its own request. replaced:"
                + " another server has its address.",
            "reason");
    silent = departures.with("silent");
    deregistered = departures.with("deregistered");
    replaced = departures.with("replaced");
  }

  void registered() {
    registrations.increment();
  }

  void heartbeat(HeartbeatResponse answer) {
    Counter counter = answer.getKnown() ? known : answer.hasReplacedBy() ? outdated : unknown;
    counter.increment();
  }

  void fellSilent() {
    silent.increment();
  }

  void deregistered() {
    deregistered.increment();
  }

  void replaced() {
    replaced.increment();
  }
}
