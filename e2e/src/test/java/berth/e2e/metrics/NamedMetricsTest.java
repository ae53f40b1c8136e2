package berth.e2e.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NamedMetricsTest {
  private static final Path MONITORING =
      Path.of(System.getProperty("berth.root")).resolve("monitoring");

  @ParameterizedTest
  @CsvSource(
      delimiter = ';',
      quoteCharacter = '`',
      value = {
        "up == 0 ; ",
        "berth_draining == 1 ; berth_draining",
        "a_total{b=\"c\", d=~\"e|f{g}\"}[5m] > 2e9 ; a_total",
        "sum by (instance, le) (rate(a_bucket{job=\"b\"}[$__rate_interval])) ; a_bucket",
        "min_over_time(a{s=\"}\"}[1h]) == 1 and on (uuid) max_over_time(b[1h]) < 0.05 ; a b",
        "a / on (x) group_left (y) b unless c offset 5m or 4 * 3600 ; a b c",
        "histogram_quantile(0.9, sum without (m) (rate(a[5m]))) > bool 1 ; a",
      })
  void findsTheMetricsOfAnExpression(String expression, String names) {
    assertThat(String.join(" ", NamedMetrics.inExpression(expression)))
        .isEqualTo(names == null ? "" : names);
  }

  @Test
  void findsThoseOfTheAlerts() {
    assertThat(NamedMetrics.inAlerts(MONITORING.resolve("alerts.yaml")))
        .hasSizeGreaterThan(20)
        .hasEntrySatisfying(
            "BerthGpuIdle",
            names ->
                assertThat(names).containsExactly("berth_gpu_state", "berth_gpu_utilization_ratio"))
        .hasEntrySatisfying("BerthServerGone", names -> assertThat(names).isEmpty());
  }

  @Test
  void findsThoseOfTheDashboard() throws Exception {
    assertThat(NamedMetrics.inDashboard(MONITORING.resolve("dashboard.json")).values())
        .hasSizeGreaterThan(30)
        .noneMatch(Set::isEmpty);
  }

  @Test
  void theyNameOnlyMetricsOfBerthAndOfProcesses() throws Exception {
    assertThat(NamedMetrics.inAlerts(MONITORING.resolve("alerts.yaml")).values())
        .allSatisfy(NamedMetricsTest::assertKnownKind);
    assertThat(NamedMetrics.inDashboard(MONITORING.resolve("dashboard.json")).values())
        .allSatisfy(NamedMetricsTest::assertKnownKind);
  }

  private static void assertKnownKind(Set<String> names) {
    assertThat(names).allMatch(name -> name.matches("(berth|process|jvm)_[a-z0-9_]+"));
  }
}
