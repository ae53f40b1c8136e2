package berth.e2e.page;

import berth.rpc.Address;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.openqa.selenium.Dimension;

/**
 * Takes the pictures of the page that are in the documentation, of simulated servers. {@code
 * scripts/pictures.sh} runs it.
 */
final class PagePictures {
  private static final Duration LINES_HAVE_GROWN = Duration.ofSeconds(5);

  private PagePictures() {}

  /**
   * Arguments: the addresses of a registry that knows few servers and of its page, the same of one
   * that knows many, the folder for the pictures, and one for what the browser needs.
   */
  public static void main(String[] args) throws Exception {
    Path target = Path.of(args[4]);
    try (SimulatedFleet few = new SimulatedFleet(Address.parse(args[0], 0), 6);
        SimulatedFleet many = new SimulatedFleet(Address.parse(args[2], 0), 500);
        Browser browser = new Browser(Path.of(args[5]))) {
      few.begin();
      many.begin();
      browser.size(new Dimension(1440, 1000));
      browser.prefer("light");
      picture(browser, args[1], "", target.resolve("page-light.png"));
      browser.prefer("dark");
      picture(browser, args[1], "", target.resolve("page-dark.png"));
      picture(browser, args[1], "#/run/gpu001/run-gpu001", target.resolve("page-run.png"));
      browser.size(Browser.PHONE);
      picture(browser, args[1], "", target.resolve("page-phone.png"));
      browser.size(new Dimension(1920, 1080));
      picture(browser, args[3], "", target.resolve("page-500-servers.png"));
    }
    System.exit(0);
  }

  private static void picture(Browser browser, String page, String place, Path file)
      throws InterruptedException {
    browser.open("about:blank");
    browser.open(page + place);
    browser.waitFor("#connection[data-connected=true]");
    browser.waitFor("[data-gpu], #output .line");
    TimeUnit.NANOSECONDS.sleep(LINES_HAVE_GROWN.toNanos());
    browser.picture(file);
  }
}
