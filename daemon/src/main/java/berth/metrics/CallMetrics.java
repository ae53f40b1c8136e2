package berth.metrics;

import berth.rpc.CallRecorder;
import java.util.List;

/** Counts the calls of a server by method, how they ended, and how long callers waited. */
public final class CallMetrics implements CallRecorder {
  private static final double[] BOUNDS = {
    .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10
  };

  private final Labelled<Counter> started;
  private final Labelled<Counter> finished;
  private final Labelled<Histogram> latency;

  /** One for each {@link Metrics}. */
  public CallMetrics(Metrics metrics) {
    started = metrics.counters("berth_rpc_started_total", "Calls started.", "method");
    finished =
        metrics.counters(
            "berth_rpc_finished_total",
            "Completed calls by gRPC status. CANCELLED: the client disconnected.",
            "method",
            "code");
    latency =
        metrics.histograms(
            "berth_rpc_latency_seconds",
            "Time until a call was answered; of a stream, until its first message.",
            List.of("method"),
            BOUNDS);
  }

  @Override
  public Method method(String name) {
    // Found once, and shown from now on.
    Counter begun = started.with(name);
    Counter ok = finished.with(name, "OK");
    Histogram answers = latency.with(name);
    return new Method() {
      @Override
      public void started() {
        begun.increment();
      }

      @Override
      public void answered(long nanos) {
        answers.observeNanos(nanos);
      }

      @Override
      public void finished(String code) {
        Counter counter = code.equals("OK") ? ok : finished.with(name, code);
        counter.increment();
      }
    };
  }
}
