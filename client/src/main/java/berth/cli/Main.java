package berth.cli;

import berth.command.CommandRunner;
import java.util.logging.LogManager;
import picocli.CommandLine;

/** The {@code berth} command. */
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    // A person reads our own one-line errors; what libraries log would only blur them.
    LogManager.getLogManager().reset();
    System.exit(CommandRunner.run(new BerthCommand(), Main::addCommands, args));
  }

  // Commands that need no server but this machine, such as `berth lock`, live with the code that
  // they need. The start
  // script names them, so that this module does not depend on theirs.
  private static CommandLine addCommands(CommandLine berth) {
    String names = System.getProperty("berth.commands", "");
    for (String name : names.isEmpty() ? new String[0] : names.split(",")) {
      try {
        berth.addSubcommand(Class.forName(name).getDeclaredConstructor().newInstance());
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("the installation has no " + name, e);
      }
    }
    return CommandGroups.addTo(berth);
  }
}
