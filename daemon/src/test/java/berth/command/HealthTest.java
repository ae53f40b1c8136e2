package berth.command;

import static org.assertj.core.api.Assertions.assertThat;

import berth.http.HttpServer;
import berth.metrics.Metrics;
import berth.metrics.VitalMetrics;
import berth.rpc.Vitals;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class HealthTest {
  @Test
  void aDaemonWhoseVitalThreadFailsSaysSo() throws Exception {
    Metrics metrics = new Metrics();
    Vitals vitals = new Vitals();
    VitalMetrics.show(vitals, metrics);
    CountDownLatch failed = new CountDownLatch(1);
    try (HttpServer http =
        new HttpOptions(0).serve(new DaemonOptions(0, 10), metrics, vitals, routes -> {})) {
      assertThat(get(http, "/healthz").statusCode()).isEqualTo(200);
      assertThat(get(http, "/metrics").body()).contains("berth_vital_threads_failing 0.0");

      Thread thread =
          vitals.start(
              "claimer",
              () -> {
                if (failed.getCount() > 0) {
                  failed.countDown();
                  throw new StackOverflowError();
                }
                new CountDownLatch(1).await();
                return true;
              });
      failed.await();
      HttpResponse<String> health;
      do {
        health = get(http, "/healthz");
      } while (health.statusCode() == 200);

      assertThat(health.statusCode()).isEqualTo(503);
      assertThat(health.body())
          .isEqualTo("the thread claimer fails: java.lang.StackOverflowError\n");
      assertThat(get(http, "/metrics").body()).contains("berth_vital_threads_failing 1.0");
      thread.interrupt();
    }
  }

  private static HttpResponse<String> get(HttpServer server, String path) throws Exception {
    return HttpClient.newHttpClient()
        .send(
            HttpRequest.newBuilder(URI.create("http://" + server.address() + path)).build(),
            HttpResponse.BodyHandlers.ofString());
  }
}
