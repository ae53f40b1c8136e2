package berth.registry;

import berth.command.CommandRunner;
import berth.command.DaemonLog;

/** The registry daemon. */
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    DaemonLog.configure();
    System.exit(CommandRunner.run(new RegistryCommand(), args));
  }
}
