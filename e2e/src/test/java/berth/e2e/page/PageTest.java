package berth.e2e.page;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Leftovers;
import berth.e2e.fixture.RunServer;
import berth.rpc.Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.Keys;
import org.openqa.selenium.WebElement;

/** The page of a registry in a real browser, with real servers whose GPUs are simulated. */
@Tag("browser")
class PageTest {
  private static final String CONNECTED = "#connection[data-connected=true]";
  private static final String BEYOND_THE_EDGE =
      "const page = document.documentElement; return page.scrollWidth - page.clientWidth";
  private static final String IN_SIGHT =
      "const box = document.querySelector(arguments[0]).getBoundingClientRect(); return box.height"
          + " > 200 && box.top >= 0 && box.bottom <= innerHeight && scrollY === 0";

  @TempDir private Path folder;
  private final int port = RunServer.freePort();
  private final int httpPort = RunServer.freePort();
  private final List<AutoCloseable> parts = new ArrayList<>();
  private Daemon registry;
  private Daemon gpu01;
  private Browser browser;

  @BeforeEach
  void start() throws IOException {
    registry = startRegistry();
    gpu01 = startServer("gpu01", 4);
    browser = new Browser(folder);
  }

  @AfterEach
  void close() throws Exception {
    browser.close();
    for (AutoCloseable part : parts) {
      part.close();
    }
    // The browser's processes go one after the other.
    await().untilAsserted(() -> assertThat(Leftovers.processesIn(folder)).isEmpty());
  }

  private Daemon startRegistry(String... options) throws IOException {
    return started(
        "registry",
        "berth-registry",
        Stream.concat(
            Stream.of("--listen", "127.0.0.1:" + port, "--http", "127.0.0.1:" + httpPort),
            Stream.of(options)));
  }

  private Daemon startServer(String name, int gpus) throws IOException {
    return started(
        name,
        "berthd",
        Stream.of(
            "--name",
            name,
            "--simulate-gpus",
            Integer.toString(gpus),
            "--runtime",
            "process",
            "--allow-root",
            "--registry",
            "127.0.0.1:" + port));
  }

  private Daemon started(String name, String command, Stream<String> options) throws IOException {
    Path own = Files.createDirectories(folder.resolve(name));
    Daemon daemon = Daemon.start(own, command, options.toArray(String[]::new));
    parts.add(daemon);
    return daemon;
  }

  /** Opens the page at a place such as "#/runs", and waits until it shows something. */
  private void open(String place) {
    browser.open("http://127.0.0.1:" + httpPort + "/" + place);
    browser.waitFor(CONNECTED);
  }

  private Process run(String name, String script) throws IOException {
    return new ProcessBuilder(
            Installed.command("berth"),
            "run",
            "--registry",
            "127.0.0.1:" + port,
            "--gpus",
            "1",
            "--name",
            name,
            "--",
            "sh",
            "-c",
            script)
        .redirectErrorStream(true)
        .redirectOutput(folder.resolve("run.log").toFile())
        .start();
  }

  @Test
  void serversAndGpusAppearAndSayThatTheyAreSimulated() throws IOException {
    open("");

    browser.waitFor("[data-server=gpu01][data-state=up]");
    browser.waitFor("[data-server=gpu01] [data-gpu]:nth-of-type(4)");
    assertThat(browser.all("[data-server=gpu01] [data-gpu][data-state=free]")).hasSize(4);
    browser.awaitText("[data-server=gpu01]", "simulated");
    browser.awaitText("[data-server=gpu01] [data-gpu]", "°C");
    browser.awaitText("[data-total=free]", "4");
    startServer("gpu02", 2);
    browser.waitFor("[data-server=gpu02][data-state=up]");
    browser.awaitText("[data-total=free]", "6");
    browser.assertNothingComplained();
  }

  @Test
  void aRunsOutputIsFollowedAndItsGpuNamesItsOwner() throws Exception {
    Path more = folder.resolve("more");
    Process run =
        run("training", "echo epoch 1; while [ ! -e " + more + " ]; do sleep 0.1; done; echo done");
    open("#/runs");
    browser.click("[data-run][data-state=running] a");
    browser.waitFor("body[data-view=run]");
    browser.awaitText("#output", "epoch 1");
    assertThat(browser.text("#output")).doesNotContain("done");
    String address = browser.address();
    open("#/");
    browser.awaitText("[data-gpu][data-state=reserved]", System.getProperty("user.name"));

    browser.open(address);
    browser.awaitText("#output", "epoch 1");
    assertThat(browser.all("[data-cancel]")).noneMatch(WebElement::isDisplayed);
    Files.createFile(more);
    browser.awaitText("#output", "done");
    browser.waitFor("[data-run][data-state=ended]");
    assertThat(run.waitFor()).isZero();
    browser.assertNothingComplained();
  }

  @Test
  void anUnnamedRunIsCalledByItsScriptAndItsOutputIsSeenWithoutScrolling() throws Exception {
    Path script = folder.resolve("train.sh");
    Files.writeString(script, "#!/bin/sh\necho epoch $2 of $1\n");
    Installed.Result run =
        Installed.berth("run", "--registry", "127.0.0.1:" + port, script.toString(), "bert", "30");
    assertThat(run.exitCode()).as(run.err()).isZero();
    open("#/runs");
    browser.waitFor("[data-run][data-state=ended]");
    assertThat(browser.text("[data-run] .cell-name a")).isEqualTo("train.sh bert 30");
    assertThat(browser.text("[data-run] .cell-name .second")).startsWith("run-");
    assertThat(browser.text("[data-run] .cell-outcome")).startsWith("train.sh bert 30");

    for (Dimension size : List.of(Browser.DESKTOP, new Dimension(1280, 720))) {
      browser.size(size);
      open("#/runs");
      browser.click("[data-run] a");
      browser.awaitText("#output", "epoch 30 of bert");
      browser.awaitText("h1", "train.sh bert 30");
      browser.awaitText("[data-fact=program]", "train.sh bert 30");
      assertThat(browser.script(IN_SIGHT, "#output")).as(size.toString()).isEqualTo(true);
      assertThat(browser.script(IN_SIGHT, ".facts")).as(size.toString()).isEqualTo(true);
    }
    browser.assertNothingComplained();
  }

  @Test
  void theHeadersOfServersHaveTheSameLinesWhateverTheySay() throws Exception {
    startServer("a-server-whose-name-is-rather-long", 2);
    Process run = run("training", "exec sleep 1000");
    for (Dimension size : List.of(Browser.DESKTOP, new Dimension(1100, 800))) {
      browser.size(size);
      open("");
      browser.waitFor("[data-server=a-server-whose-name-is-rather-long] [data-gpu]");
      browser.waitFor("[data-server] [data-chip=run]");

      assertThat(
              browser.script(
                  "return new Set([...document.querySelectorAll('.card-head')]"
                      + ".map((head) => Math.round(head.getBoundingClientRect().height))).size"))
          .as(size.toString())
          .isEqualTo(1L);
    }
    run.destroy();
    run.waitFor();
  }

  @Test
  void aKilledServerTurnsGreyAndComesBack() throws Exception {
    open("");
    browser.waitFor("[data-server=gpu01][data-state=up]");

    gpu01.kill();
    browser.waitFor("[data-server=gpu01][data-state=gone]");
    browser.awaitText("[data-server=gpu01]", "gone");
    browser.awaitText("[data-total=free]", "0");
    startServer("gpu01", 4);

    browser.waitFor("[data-server=gpu01][data-state=up]");
    browser.awaitText("[data-total=free]", "4");
  }

  @Test
  void whatPeopleTypeIsTextAndNeverRuns() throws Exception {
    String evil = "<img src=x onerror=\"window.evil=1\"><script>window.evil=1</script>";
    Process run = run(evil, "echo '" + evil + "'; exec sleep 1000");
    open("#/runs");
    browser.awaitText("[data-run]", "<script>window.evil=1</script>");
    browser.click("[data-run] a");
    browser.awaitText("#output", evil);
    open("#/");
    browser.awaitText("[data-gpu][data-state=reserved]", "<img src=x");
    open("#/runs?q=" + "%3Cscript%3Ewindow.evil%3D1%3C%2Fscript%3E");
    open("#/server/%3Cimg%20src%3Dx%20onerror%3Dwindow.evil%3D1%3E");

    assertThat(browser.script("return window.evil")).isNull();
    assertThat(browser.script("return document.querySelectorAll('main img, main script').length"))
        .isEqualTo(0L);
    browser.assertNothingComplained();
    run.destroy();
    run.waitFor();
  }

  @Test
  void aLostConnectionIsSaidAndComesBackByItself() throws Exception {
    open("");
    browser.waitFor("[data-server=gpu01][data-state=up]");
    browser.script("window.before = true");

    registry.kill();
    browser.waitFor("#connection[data-connected=false]");
    browser.waitFor("#banner:not([hidden])");
    assertThat(browser.text("[data-server=gpu01]")).contains("gpu01");
    startRegistry();

    browser.waitFor(CONNECTED);
    browser.waitFor("[data-server=gpu01][data-state=up]");
    browser.awaitGone("#banner:not([hidden])");
    // It was not loaded anew.
    assertThat(browser.script("return window.before")).isEqualTo(true);
  }

  @Test
  void everythingFitsOnAPhone() throws Exception {
    Process run = run("a name that is longer than any phone is wide ".repeat(4), "exec sleep 1000");
    for (Dimension size : List.of(Browser.PHONE, new Dimension(360, 640))) {
      browser.size(size);
      for (String place : List.of("#/", "#/runs", "#/clusters", "#/queue", "#/server/gpu01")) {
        open(place);
        browser.waitFor("main *");
        assertThat(browser.script(BEYOND_THE_EDGE)).as(place).isEqualTo(0L);
      }
    }
    run.destroy();
    run.waitFor();
  }

  @Test
  void manyServersAreSmallAndAllAreThere() throws Exception {
    try (SimulatedFleet fleet = new SimulatedFleet(new Address("127.0.0.1", port), 150)) {
      fleet.begin();
      open("");
      // With the one that is real.
      browser.awaitText("[data-total=up]", "151");
      browser.waitFor("[data-server=gpu150]");
      browser.awaitText("[data-total=runs]", "150");
      browser.type("/");
      browser.type("server:gpu149 state:up");
      browser.awaitGone("[data-server=gpu010]");
      browser.waitFor("[data-server=gpu149] [data-gpu][data-state=reserved]");
      browser.assertNothingComplained();
    }
  }

  @Test
  void lightAndDarkFollowTheSystem() {
    browser.prefer("light");
    open("");
    String light = background();
    browser.prefer("dark");
    String dark = background();

    assertThat(dark).isNotEqualTo(light);
    browser.click("#theme");
    browser.waitFor("html[data-theme=light]");
    assertThat(background()).isEqualTo(light);
    // Remembered.
    open("");
    browser.waitFor("html[data-theme=light]");
  }

  private String background() {
    return (String) browser.script("return getComputedStyle(document.body).backgroundColor");
  }

  @Test
  void theKeyboardIsEnoughAndLinksLeadToWhatWasSeen() throws IOException {
    startServer("gpu02", 2);
    open("");
    browser.waitFor("[data-server=gpu02]");
    browser.type("/");
    browser.type("server:gpu02");
    browser.awaitGone("[data-server=gpu01]");
    assertThat(browser.address()).contains("q=server");
    browser.type(Keys.ESCAPE);
    browser.waitFor("[data-server=gpu01]");
    browser.type(Keys.ESCAPE);
    browser.type("g", "r");
    browser.waitFor("body[data-view=runs]");
    browser.type("g", "s");
    browser.waitFor("body[data-view=servers]");
    browser.waitFor("[data-server=gpu01]");
    browser.type("j");
    browser.type(Keys.ENTER);
    browser.waitFor("body[data-view=server]");
    String link = browser.address();
    assertThat(link).contains("#/server/gpu0");
    browser.type(Keys.ESCAPE);
    browser.waitFor("body[data-view=servers]");

    browser.open(link);
    browser.waitFor("body[data-view=server]");
    browser.waitFor("[data-gpu]");
    browser.assertNothingComplained();
  }

  @Test
  void whereItIsAllowedAViewerCancels() throws Exception {
    registry.kill();
    startRegistry("--page-cancel");
    open("");
    browser.waitFor("[data-server=gpu01][data-state=up]");
    Process run = run("to be cancelled", "exec sleep 1000");
    open("#/runs");
    browser.click("[data-run][data-state=running] a");
    browser.click("[data-cancel]");
    browser.waitFor("dialog[data-dialog=cancel][open]");
    browser.click("dialog[data-dialog=cancel] [data-confirm]");

    browser.waitFor("[data-run][data-state=ended]");
    assertThat(run.waitFor()).isNotZero();
    assertThat(Files.readString(folder.resolve("run.log"))).contains("web-page");
  }

  @Test
  void aClusterIsShownWithItsTasksAndWhereTheyAre() throws Exception {
    startServer("gpu02", 2);
    await()
        .until(
            () ->
                Installed.berth("servers", "--registry", "127.0.0.1:" + port).out().lines().count()
                    == 3);
    Installed.Result handedOver =
        Installed.berth(
            "cluster",
            "run",
            "--registry",
            "127.0.0.1:" + port,
            "--detach",
            "--name",
            "mnist",
            "--workers",
            "2",
            "--ps",
            "1",
            "--",
            "sh",
            "-c",
            "echo I am $TF_CONFIG; exec sleep 1000");
    assertThat(handedOver.exitCode()).as(handedOver.err()).isZero();
    open("#/clusters");
    browser.click("[data-cluster][data-phase=running] a");

    browser.waitFor("[data-task='worker:0'] [data-attempt='1']");
    browser.waitFor("[data-task='ps:0']");
    browser.awaitText("#output", "\"worker\",\"index\":0");
    assertThat(browser.script(IN_SIGHT, "#output")).isEqualTo(true);
    browser.click("[data-task='ps:0'] button");
    browser.awaitText("#output", "\"ps\",\"index\":0");
    browser.click("#output-task option[value='worker:1']");
    browser.awaitText("#output", "\"worker\",\"index\":1");
    browser.click("[data-task='worker:1'] a[href*='/run/']");
    browser.awaitText("#output", "\"task\"");
    browser.assertNothingComplained();
    Installed.berth("cluster", "cancel", "--registry", "127.0.0.1:" + port, "-f", "mnist");
  }
}
