package berth.cli;

import berth.command.CommandRunner;
import java.util.logging.LogManager;

/** The {@code berth} command. */
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    // A person reads our own one-line errors; what libraries log would only blur them.
    LogManager.getLogManager().reset();
    System.exit(CommandRunner.run(new BerthCommand(), CommandGroups::addTo, args));
  }
}
