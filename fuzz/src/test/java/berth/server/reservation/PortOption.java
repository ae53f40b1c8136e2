package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;

import berth.host.lock.PortRange;

/** What berthd is told of ports. */
public final class PortOption {
  private PortOption() {}

  /** Refuses what is no range. */
  public static void check(String range) {
    assertThat(PortRange.parse(range).size()).isBetween(0, 65535);
  }
}
