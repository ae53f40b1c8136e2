package berth.e2e.bench;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import berth.e2e.page.Browser;
import berth.e2e.page.SimulatedFleet;
import berth.rpc.Address;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the page costs with many servers whose GPUs have a new sample every second: the registry's
 * processor time and memory, the bytes that each viewer gets, and the time that a browser needs for
 * a frame. {@code scripts/bench.sh page} runs it.
 */
final class PageBench {
  private static final int GPUS = 8;
  private static final List<Integer> VIEWERS = List.of(0, 1, 10, 100);
  private static final int SETTLE_SECONDS = 10;

  private static final String MEASURE_FRAMES =
      """
      window.frames_ = [];
      let last = performance.now();
      const frame = (now) => { window.frames_.push(now - last); last = now; requestAnimationFrame(frame); };
      requestAnimationFrame(frame);
      window.busy_ = [];
      new PerformanceObserver((list) => list.getEntries().forEach((e) => window.busy_.push(e.duration)))
          .observe({entryTypes: ['longtask']});
      """;

  private final URI page;
  private final long pid;
  private final int servers;
  private final int seconds;

  private PageBench(URI page, long pid, int servers, int seconds) {
    this.page = page;
    this.pid = pid;
    this.servers = servers;
    this.seconds = seconds;
  }

  /**
   * Arguments: addresses of a registry and of its page, its pid, servers, seconds, and a folder for
   * what the browser needs.
   */
  public static void main(String[] args) throws Exception {
    int servers = Integer.parseInt(args[3]);
    try (SimulatedFleet fleet = new SimulatedFleet(Address.parse(args[0], 0), servers)) {
      fleet.begin();
      new PageBench(
              URI.create(args[1]), Long.parseLong(args[2]), servers, Integer.parseInt(args[4]))
          .run(Path.of(args[5]));
    }
    System.exit(0);
  }

  private void run(Path folder) throws Exception {
    System.out.printf("%d simulated servers with %d GPUs each, a sample a second%n", servers, GPUS);
    List<Viewer> viewers = new ArrayList<>();
    for (int wanted : VIEWERS) {
      while (viewers.size() < wanted) {
        viewers.add(new Viewer());
      }
      TimeUnit.SECONDS.sleep(SETTLE_SECONDS);
      measure(viewers);
    }
    viewers.forEach(Viewer::close);
    measureBrowser(folder);
  }

  private void measure(List<Viewer> viewers) throws Exception {
    long bytesBefore = viewers.isEmpty() ? 0 : viewers.get(0).bytes.get();
    double cpuBefore = cpuSeconds(pid);
    long start = System.nanoTime();
    TimeUnit.SECONDS.sleep(seconds);
    double elapsed = (System.nanoTime() - start) / 1e9;
    double cpu = (cpuSeconds(pid) - cpuBefore) / elapsed * 100;
    System.out.printf(
        "%3d viewers: registry %5.1f %% of a core, %4.0f MB", viewers.size(), cpu, rss());
    if (!viewers.isEmpty()) {
      double rate = (viewers.get(0).bytes.get() - bytesBefore) / elapsed;
      System.out.printf("; each gets %.0f kB/s", rate / 1000);
      if (viewers.size() > 1) {
        // The first one came before the servers had shown themselves.
        long whole = viewers.get(1).whole.get();
        System.out.printf(
            ", a page that fetched everything every second %.0f kB/s: ratio %.0f",
            whole / 1000.0, whole / rate);
      }
    }
    System.out.println();
  }

  private void measureBrowser(Path folder) throws Exception {
    try (Browser browser = new Browser(folder)) {
      long start = System.nanoTime();
      browser.open(page.toString());
      browser.waitFor("[data-gpu]");
      System.out.printf("browser: first GPU after %.1f s%n", (System.nanoTime() - start) / 1e9);
      TimeUnit.SECONDS.sleep(SETTLE_SECONDS);
      browser.script(MEASURE_FRAMES);
      TimeUnit.SECONDS.sleep(seconds);
      List<?> frames = (List<?>) browser.script("return window.frames_");
      double[] millis =
          frames.stream().mapToDouble(frame -> ((Number) frame).doubleValue()).sorted().toArray();
      System.out.printf(
          "browser: frame p50 %.1f ms, p95 %.1f ms, p99 %.1f ms, longest %.1f ms of %d frames in"
              + " %d s; %s tasks of over 50 ms%n",
          at(millis, 50),
          at(millis, 95),
          at(millis, 99),
          at(millis, 100),
          millis.length,
          seconds,
          browser.script("return window.busy_.length"));
    }
  }

  private static double at(double[] sorted, int percent) {
    return sorted[Math.min(sorted.length - 1, sorted.length * percent / 100)];
  }

  private double rss() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/" + pid + "/status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", "")) / 1000.0;
      }
    }
    return 0;
  }

  private static double cpuSeconds(long pid) throws IOException {
    String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
    String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
    // utime and stime, in ticks of 10 ms on every Linux of today.
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / 100.0;
  }

  /** One who reads all events and looks at none. */
  private final class Viewer {
    private final AtomicLong bytes = new AtomicLong();
    // Those before the first sample.
    private final AtomicLong whole = new AtomicLong();
    private final InputStream stream;

    Viewer() throws IOException, InterruptedException {
      stream =
          HttpClient.newHttpClient()
              .send(
                  HttpRequest.newBuilder(page.resolve("/api/wall")).build(),
                  HttpResponse.BodyHandlers.ofInputStream())
              .body();
      Thread reader = new Thread(this::read, "viewer");
      reader.setDaemon(true);
      reader.start();
    }

    private void read() {
      byte[] buffer = new byte[64 << 10];
      try {
        for (int read; (read = stream.read(buffer)) >= 0; ) {
          if (whole.get() == 0) {
            int sample = new String(buffer, 0, read, ISO_8859_1).indexOf("event: samples");
            whole.set(sample < 0 ? 0 : bytes.get() + sample);
          }
          bytes.addAndGet(read);
        }
      } catch (IOException e) {
        // Closed.
      }
    }

    void close() {
      try {
        stream.close();
      } catch (IOException e) {
        // It is going anyway.
      }
    }
  }
}
