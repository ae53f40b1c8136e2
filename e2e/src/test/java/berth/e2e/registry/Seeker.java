package berth.e2e.registry;

import berth.discovery.Discovery;
import berth.discovery.Reach;
import java.time.Duration;

/** Looks for registries and prints them, a line each, and in the last line how long that took. */
final class Seeker {
  private Seeker() {}

  /**
   * @param args the reach, the UDP port, and how long to look in milliseconds
   */
  public static void main(String[] args) {
    long start = System.nanoTime();
    Duration timeout = Duration.ofMillis(Long.parseLong(args[2]));
    Discovery.find(Reach.valueOf(args[0]), Integer.parseInt(args[1]), timeout)
        .forEach(found -> System.out.println(found.name() + " " + found.address()));
    System.out.println(Duration.ofNanos(System.nanoTime() - start).toMillis());
  }
}
