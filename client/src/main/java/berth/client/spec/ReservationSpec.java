package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;

/**
 * What is to be reserved, and where. Made by a {@link Builder}:
 *
 * <pre>{@code
 * ReservationSpec.builder().gpus(2).gpuModel("A100").ports(1).build()
 * }</pre>
 *
 * @param purpose what for, in a few words that others see
 * @param resources the GPUs and ports, and where they may be
 * @param lease how long it is held after its holder, or the connection to it, is lost
 * @param service a service that the server must have; empty: any
 */
public record ReservationSpec(String purpose, Resources resources, Duration lease, String service) {
  private static final Duration SHORTEST_LEASE = Duration.ofSeconds(1);

  /**
   * @throws BerthException INVALID if nothing is asked for, or the lease is too short
   */
  public ReservationSpec {
    check(!resources.isNone(), "neither GPUs nor ports requested");
    check(
        lease.compareTo(SHORTEST_LEASE) >= 0,
        "a lease of " + lease.toMillis() + " ms asked; it must be a second at least");
  }

  /** Begins a reservation of which nothing is said. */
  public static Builder builder() {
    return new Builder();
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }

  /**
   * Gathers what a reservation is made of. What is never said has the default that the record
   * names; the lease is 30 seconds. For one thread.
   */
  public static final class Builder extends ResourcesBuilder<Builder> {
    private String purpose = "";
    private Duration lease = Duration.ofSeconds(30);
    private String service = "";

    private Builder() {}

    @Override
    Builder self() {
      return this;
    }

    /** What for, in a few words that others see. */
    public Builder purpose(String purpose) {
      this.purpose = purpose;
      return this;
    }

    /** How long it is held after its holder, or the connection to it, is lost; a second or more. */
    public Builder lease(Duration duration) {
      this.lease = duration;
      return this;
    }

    /** Only servers that have this service, for what is to be run there. */
    public Builder service(String name) {
      this.service = name;
      return this;
    }

    /**
     * @throws BerthException INVALID if nothing is asked for, or something contradicts itself
     */
    public ReservationSpec build() {
      return new ReservationSpec(purpose, resources(), lease, service);
    }
  }
}
