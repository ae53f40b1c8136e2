package berth.e2e.page;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.logging.Level;
import org.awaitility.Awaitility;
import org.awaitility.core.ConditionFactory;
import org.openqa.selenium.By;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.NoSuchElementException;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.StaleElementReferenceException;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;
import org.openqa.selenium.interactions.Actions;
import org.openqa.selenium.logging.LogEntry;
import org.openqa.selenium.logging.LogType;
import org.openqa.selenium.logging.LoggingPreferences;

/** A Chromium without a window, for one page at a time. It talks to nobody but this machine. */
public final class Browser implements AutoCloseable {
  static final Dimension DESKTOP = new Dimension(1440, 900);
  static final Dimension PHONE = new Dimension(390, 844);

  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final List<String> FLAGS =
      List.of(
          "--headless=new",
          "--no-sandbox",
          "--disable-gpu",
          "--disable-dev-shm-usage",
          "--disable-quic",
          "--no-first-run",
          "--disable-background-networking",
          "--disable-component-update",
          "--disable-sync",
          "--disable-extensions",
          "--force-color-profile=srgb");

  private final ChromeDriver driver;

  /**
   * @param folder for its profile
   */
  public Browser(Path folder) {
    ChromeOptions options = new ChromeOptions();
    options.setBinary("/usr/bin/chromium");
    options.addArguments(FLAGS);
    options.addArguments("--user-data-dir=" + folder.resolve("chromium"));
    LoggingPreferences logs = new LoggingPreferences();
    logs.enable(LogType.BROWSER, Level.ALL);
    options.setCapability(ChromeOptions.LOGGING_PREFS, logs);
    driver =
        new ChromeDriver(
            new ChromeDriverService.Builder()
                .usingDriverExecutable(new File("/usr/bin/chromedriver"))
                .usingAnyFreePort()
                .build(),
            options);
    size(DESKTOP);
  }

  @Override
  public void close() {
    driver.quit();
  }

  public void open(String url) {
    driver.get(url);
  }

  /** The size of what is shown, whatever a window would need around it. */
  void size(Dimension size) {
    driver.executeCdpCommand(
        "Emulation.setDeviceMetricsOverride",
        Map.of(
            "width",
            size.width,
            "height",
            size.height,
            "deviceScaleFactor",
            1,
            "mobile",
            size.equals(PHONE)));
  }

  /** What the system prefers: "light" or "dark". */
  void prefer(String scheme) {
    driver.executeCdpCommand(
        "Emulation.setEmulatedMedia",
        Map.of("features", List.of(Map.of("name", "prefers-color-scheme", "value", scheme))));
  }

  /** The element, as soon as there is one. */
  public WebElement waitFor(String selector) {
    return await(selector).until(() -> all(selector), found -> !found.isEmpty()).get(0);
  }

  void awaitGone(String selector) {
    await(selector).until(() -> all(selector).isEmpty());
  }

  /** Waits until an element has a text in it. */
  void awaitText(String selector, String text) {
    await(selector).until(() -> text(selector), shown -> shown.contains(text));
  }

  private static ConditionFactory await(String selector) {
    return Awaitility.await(selector).atMost(PATIENCE);
  }

  List<WebElement> all(String selector) {
    return driver.findElements(By.cssSelector(selector));
  }

  /** The text of the first such element; empty if there is none at present. */
  String text(String selector) {
    try {
      return driver.findElement(By.cssSelector(selector)).getText();
    } catch (NoSuchElementException | StaleElementReferenceException e) {
      return "";
    }
  }

  void click(String selector) {
    waitFor(selector).click();
  }

  void type(CharSequence... keys) {
    for (CharSequence key : keys) {
      new Actions(driver).sendKeys(key).perform();
    }
  }

  public Object script(String script, Object... arguments) {
    return driver.executeScript(script, arguments);
  }

  String address() {
    return driver.getCurrentUrl();
  }

  void picture(Path file) {
    try {
      Files.write(file, driver.getScreenshotAs(OutputType.BYTES));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  /** Checks that the page has no errors and did nothing that it may not. */
  void assertNothingComplained() {
    assertThat(driver.manage().logs().get(LogType.BROWSER).getAll())
        .filteredOn(entry -> entry.getLevel().intValue() >= Level.WARNING.intValue())
        .extracting(LogEntry::getMessage)
        .isEmpty();
  }

  /** Forgets complaints, such as those about a registry that a test has killed. */
  void forgetComplaints() {
    driver.manage().logs().get(LogType.BROWSER);
  }
}
