package berth.e2e.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.TestInstance.Lifecycle;
import org.junit.jupiter.api.io.TempDir;

/** What the installed daemons tell those who watch over them. */
@TestInstance(Lifecycle.PER_CLASS)
class DaemonMetricsTest {
  private static final Path MONITORING = Path.of(System.getProperty("berth.root"), "monitoring");
  private static final Pattern HTTP = Pattern.compile("(?:page is|metrics at) (http://[^/]+/)");

  @TempDir private static Path folder;
  private final HttpClient client = HttpClient.newHttpClient();
  private Daemon registry;
  private Daemon server;

  @BeforeAll
  void start() throws IOException {
    registry = Daemon.start(Files.createDirectory(folder.resolve("registry")), "berth-registry");
    server =
        Daemon.start(
            Files.createDirectory(folder.resolve("gpu01")),
            "berthd",
            "--name",
            "gpu01",
            "--simulate-gpus",
            "2",
            "--runtime",
            "process",
            "--allow-root",
            "--registry",
            registry.address());
    await().until(() -> value(registry, "berth_registry_servers{state=\"serving\"}") == 1);
    assertThat(run("echo hello")).isZero();
    assertThat(run("exit 3")).isEqualTo(3);
  }

  @AfterAll
  void stop() throws InterruptedException {
    server.stop();
    registry.stop();
  }

  private int run(String script) {
    return Installed.berth(
            "run", "--server", server.address(), "--gpus", "1", "--", "sh", "-c", script)
        .exitCode();
  }

  private HttpResponse<String> get(Daemon daemon, String path, String... headers) {
    Matcher found = HTTP.matcher(daemon.log());
    assertThat(found.find()).as(daemon.log()).isTrue();
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(found.group(1) + path));
    if (headers.length > 0) {
      request.headers(headers);
    }
    try {
      return client.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (IOException | InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private String metrics(Daemon daemon) {
    return get(daemon, "metrics").body();
  }

  /** The value of a series such as {@code berth_gpus{state="free"}}; -1 if there is none. */
  private double value(Daemon daemon, String series) {
    return metrics(daemon)
        .lines()
        .filter(line -> line.startsWith(series + " "))
        .mapToDouble(line -> Double.parseDouble(line.substring(series.length() + 1)))
        .findFirst()
        .orElse(-1);
  }

  private Set<String> names(Daemon daemon) {
    return metrics(daemon)
        .lines()
        .filter(line -> !line.startsWith("#") && !line.isBlank())
        .map(line -> line.replaceFirst("[{ ].*", ""))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  @Test
  void everyMetricThatAlertsAndDashboardNameExists() throws IOException {
    Set<String> there = names(server);
    there.addAll(names(registry));
    Map<String, Set<String>> alerts = NamedMetrics.inAlerts(MONITORING.resolve("alerts.yaml"));
    Map<String, Set<String>> dashboard =
        NamedMetrics.inDashboard(MONITORING.resolve("dashboard.json"));

    assertThat(alerts).hasSizeGreaterThan(20);
    assertThat(dashboard).hasSizeGreaterThan(10);
    for (Map<String, Set<String>> named : List.of(alerts, dashboard)) {
      named.forEach((where, names) -> assertThat(there).as(where).containsAll(names));
    }
  }

  @Test
  void whatHappenedIsCounted() {
    assertThat(value(server, "berth_gpus{state=\"free\"}")).isEqualTo(2);
    assertThat(value(server, "berth_reservations_granted_total")).isEqualTo(2);
    assertThat(value(server, "berth_reservation_wait_seconds_count")).isEqualTo(2);
    assertThat(value(server, "berth_runs_ended_total{reason=\"finished\"}")).isEqualTo(1);
    assertThat(value(server, "berth_runs_ended_total{reason=\"failed\"}")).isEqualTo(1);
    assertThat(value(server, "berth_run_start_seconds_count")).isEqualTo(2);
    assertThat(value(server, "berth_run_output_bytes_total")).isEqualTo("hello\n".length());
    assertThat(value(server, "berth_rpc_started_total{method=\"berth.v1.RunService/RunCode\"}"))
        .isEqualTo(2);
    assertThat(value(registry, "berth_registry_server_gpus{server=\"gpu01\",state=\"free\"}"))
        .isEqualTo(2);
  }

  @Test
  void theFormatIsTheOneThatIsAskedFor() {
    assertThat(get(server, "metrics").headers().firstValue("content-type"))
        .contains("text/plain; version=0.0.4; charset=utf-8");
    HttpResponse<String> open =
        get(server, "metrics", "Accept", "application/openmetrics-text; version=1.0.0");
    assertThat(open.headers().firstValue("content-type").orElseThrow())
        .startsWith("application/openmetrics-text");
    assertThat(open.body()).endsWith("# EOF\n");
  }

  @Test
  void bothSayWhetherTheyLiveAndWhetherTheyAreReady() {
    for (Daemon daemon : List.of(registry, server)) {
      assertThat(get(daemon, "healthz").statusCode()).isEqualTo(200);
      assertThat(get(daemon, "readyz").statusCode()).isEqualTo(200);
      assertThat(get(daemon, "nothing").statusCode()).isEqualTo(404);
    }
  }

  @Test
  void aServerWithoutDriverIsNotReadyAndSaysWhy() throws Exception {
    try (Daemon blind =
        Daemon.start(
            Files.createDirectory(folder.resolve("blind")),
            "berthd",
            "--nvml-library",
            folder.resolve("none.so").toString(),
            "--runtime",
            "process",
            "--allow-root")) {
      HttpResponse<String> ready = get(blind, "readyz");

      assertThat(ready.statusCode()).isEqualTo(503);
      assertThat(ready.body()).contains("none.so");
      assertThat(get(blind, "healthz").statusCode()).isEqualTo(200);
      blind.stop();
    }
  }

  @Test
  void anAddressThatIsAskedForAndCannotBeHadIsAFailure() throws Exception {
    String taken = HTTP.matcher(server.log()).results().findFirst().orElseThrow().group(1);
    String address = taken.substring("http://".length(), taken.length() - 1);
    Installed.Result refused =
        Installed.run(
            Installed.command("berthd"),
            "--listen",
            "127.0.0.1:0",
            "--http",
            address,
            "--simulate-gpus",
            "1",
            "--runtime",
            "process",
            "--allow-root",
            "--lock-dir",
            Files.createDirectory(folder.resolve("locks")).toString(),
            "--state-dir",
            folder.resolve("state").toString());

    assertThat(refused.exitCode()).isEqualTo(125);
    assertThat(lastLine(refused.err())).startsWith("berthd: cannot listen on " + address);
  }

  private static String lastLine(String text) {
    return Stream.of(text.split("\n")).reduce((before, last) -> last).orElse("");
  }
}
