package berth.client;

import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.Lifetime;
import berth.v1.ReserveRequest;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What is to be reserved, and where. Made by a {@link Builder}:
 *
 * <pre>{@code
 * ReservationSpec.builder().gpus(2).gpuModel("A100").ports(1).build()
 * }</pre>
 *
 * @param purpose what for, in a few words that others see
 * @param gpus how many GPUs of one server; -1: all of it
 * @param gpuModel part of the name that each must have; empty: any
 * @param minGpuMemoryBytes free memory that each must have
 * @param ports how many TCP ports of the same server
 * @param waitAtMost how long to wait for what is not free; empty: for ever
 * @param lease how long it is held after its holder, or the connection to it, is lost
 * @param service a service that the server must have; empty: any
 * @param labels what a server must have
 * @param servers names of those servers that may be considered; empty: all
 * @param exclude names of servers that may not
 */
public record ReservationSpec(
    String purpose,
    int gpus,
    String gpuModel,
    long minGpuMemoryBytes,
    int ports,
    Optional<Duration> waitAtMost,
    Duration lease,
    String service,
    Map<String, String> labels,
    Set<String> servers,
    Set<String> exclude) {
  private static final Duration SHORTEST_LEASE = Duration.ofSeconds(1);

  public ReservationSpec {
    labels = Map.copyOf(labels);
    servers = Set.copyOf(servers);
    exclude = Set.copyOf(exclude);
    check(gpus >= -1, gpus + " GPUs asked; ask for 0 or more, or -1 for all of one server");
    check(
        gpus != 0 || gpuModel.isEmpty() && minGpuMemoryBytes == 0,
        "a model and a memory of GPUs choose among GPUs, and none are asked for");
    check(ports >= 0, ports + " ports asked; ask for 0 or more");
    check(gpus != 0 || ports > 0, "nothing is asked for: neither GPUs nor ports");
    check(
        lease.compareTo(SHORTEST_LEASE) >= 0,
        "a lease of " + lease.toMillis() + " ms asked; it must be a second at least");
  }

  public static Builder builder() {
    return new Builder();
  }

  private static void check(boolean right, String otherwise) {
    if (!right) {
      throw new BerthException(Reason.INVALID, otherwise);
    }
  }

  ReserveRequest request() {
    ReserveRequest.Builder request =
        ReserveRequest.newBuilder()
            .setPortCount(ports)
            .setWait(Messages.waitTime(waitAtMost))
            // Unlike what lives by renewals, it goes on while its server is restarted.
            .setLifetime(
                Lifetime.newBuilder().setDuration(Messages.duration(lease)).setRenewed(true))
            .setOwner(ThisUser.owner())
            .setPurpose(purpose);
    if (gpus != 0) {
      request.setGpus(
          GpuRequest.newBuilder()
              .setCount(gpus)
              .setMinFreeMemoryBytes(minGpuMemoryBytes)
              .setModel(gpuModel));
    }
    return request.build();
  }

  /**
   * Gathers what a reservation is made of. What is never said has the default that the record
   * names; the lease is 30 seconds. For one thread.
   */
  public static final class Builder {
    private String purpose = "";
    private int gpus;
    private String gpuModel = "";
    private long minGpuMemoryBytes;
    private int ports;
    private Optional<Duration> waitAtMost = Optional.empty();
    private Duration lease = Duration.ofSeconds(30);
    private String service = "";
    private final Map<String, String> labels = new LinkedHashMap<>();
    private final Set<String> servers = new LinkedHashSet<>();
    private final Set<String> exclude = new LinkedHashSet<>();

    private Builder() {}

    /** What for, in a few words that others see. */
    public Builder purpose(String purpose) {
      this.purpose = purpose;
      return this;
    }

    /** So many GPUs of one server; -1: all that are healthy. */
    public Builder gpus(int count) {
      this.gpus = count;
      return this;
    }

    /** Only GPUs with this in their name, such as {@code A100}. */
    public Builder gpuModel(String part) {
      this.gpuModel = part;
      return this;
    }

    /** Only GPUs with so much free memory, such as {@code 40g}. */
    public Builder minGpuMemory(String size) {
      this.minGpuMemoryBytes = RunSpec.Builder.bytes(size);
      return this;
    }

    /** So many TCP ports of the same server. */
    public Builder ports(int count) {
      this.ports = count;
      return this;
    }

    /** How long to wait for what is not free; nothing: not at all. */
    public Builder waitAtMost(Duration duration) {
      this.waitAtMost = Optional.of(duration);
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

    /** Only servers that have this label. */
    public Builder label(String key, String value) {
      labels.put(key, value);
      return this;
    }

    /** Only these servers, and those that earlier calls named. */
    public Builder servers(String... names) {
      servers.addAll(List.of(names));
      return this;
    }

    /** Not these servers, nor those that earlier calls named. */
    public Builder exclude(String... names) {
      exclude.addAll(List.of(names));
      return this;
    }

    /**
     * @throws BerthException INVALID if nothing is asked for, or something contradicts itself
     */
    public ReservationSpec build() {
      return new ReservationSpec(
          purpose,
          gpus,
          gpuModel,
          minGpuMemoryBytes,
          ports,
          waitAtMost,
          lease,
          service,
          labels,
          servers,
          exclude);
    }
  }
}
