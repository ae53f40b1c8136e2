package berth.e2e.soak;

import java.nio.file.Path;
import java.time.Duration;

/** What everybody in a soak needs. */
record SoakParts(
    SoakWorld world, Witness witness, SoakTargets targets, Tally tally, Calm calm, Pace pace) {
  /** How long the loss of a server or registry is felt after it is back. */
  private static final Duration AFTERMATH = Duration.ofSeconds(20);

  private static final Duration LOOK = Duration.ofSeconds(1);

  /** The program that is run. */
  Path script() {
    return Path.of(System.getProperty("berth.root"), "e2e/src/test/python/soaked.py");
  }

  /** Whether anything was away since then, or has just come back then. */
  boolean troubleSince(long nanos) {
    return world.somethingAwaySince(nanos - AFTERMATH.toNanos());
  }

  /** The same for one server. */
  boolean troubleSince(String server, long nanos) {
    return world.server(server).absences().since(nanos - AFTERMATH.toNanos());
  }

  /** Waits for the end of a command; false if it should have ended long ago, and was killed. */
  boolean await(SoakCommand command) throws InterruptedException {
    while (!command.await(LOOK)) {
      if (calm.overdue()) {
        command.kill();
        return false;
      }
    }
    return true;
  }

  /** Says what is wrong with what a command did. */
  void blame(String name, String what, SoakCommand command) {
    tally.violation(
        name
            + ": "
            + what
            + "; "
            + String.join(" ", command.words())
            + " printed "
            + command.outFile()
            + " and '"
            + command.err().replace("\n", " / ")
            + "'");
  }
}
