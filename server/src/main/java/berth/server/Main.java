package berth.server;

import berth.command.CommandRunner;
import berth.command.DaemonLog;

/** The daemon of a GPU server. */
public final class Main {
  private Main() {}

  public static void main(String[] args) {
    DaemonLog.configure();
    System.exit(CommandRunner.run(new BerthdCommand(), args));
  }
}
