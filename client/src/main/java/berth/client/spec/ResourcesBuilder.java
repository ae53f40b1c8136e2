package berth.client.spec;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What the builders of runs and of reservations have in common. What is never said has the default
 * that {@link Resources} names. For one thread.
 *
 * @param <B> the builder itself
 */
public abstract sealed class ResourcesBuilder<B extends ResourcesBuilder<B>>
    permits RunSpec.Builder, ReservationSpec.Builder {
  private int gpus;
  private List<String> exactGpus = List.of();
  private String gpuModel = "";
  private long minGpuMemoryBytes;
  private int ports;
  private Optional<Duration> waitAtMost = Optional.empty();
  private final Map<String, String> labels = new LinkedHashMap<>();
  private final Set<String> servers = new LinkedHashSet<>();
  private final Set<String> exclude = new LinkedHashSet<>();

  abstract B self();

  /**
   * So many GPUs of one server, rather than given ones.
   *
   * @throws BerthException INVALID if the number is negative
   */
  public B gpus(int count) {
    if (count < 0) {
      throw new BerthException(
          Reason.INVALID,
          "number of GPUs must not be negative: " + count + " (use allGpus() for all)");
    }
    return count(count);
  }

  /** All healthy GPUs of one server. */
  public B allGpus() {
    return count(GpuChoice.ALL);
  }

  /** {@link #gpus} for a number that may be {@link GpuChoice#ALL}, as options and files have it. */
  public B gpusOrAll(int count) {
    return count == GpuChoice.ALL ? allGpus() : gpus(count);
  }

  private B count(int count) {
    this.gpus = count;
    this.exactGpus = List.of();
    return self();
  }

  /**
   * Exactly these GPUs, rather than a number of them: UUIDs, or indices as {@code "0"}. Indices
   * need {@link #servers} with one name, since every server has a GPU 0.
   */
  public B exactGpus(String... ids) {
    this.exactGpus = List.of(ids);
    this.gpus = 0;
    return self();
  }

  /** Only GPUs with this in their name, such as {@code A100}. */
  public B gpuModel(String part) {
    this.gpuModel = part;
    return self();
  }

  /**
   * Only GPUs with so much free memory, such as {@code 40g}.
   *
   * @throws BerthException INVALID if it is not written so
   */
  public B minGpuMemory(String size) {
    this.minGpuMemoryBytes = RunSpec.Builder.bytes(size);
    return self();
  }

  /** So many TCP ports of the server; a run finds them in BERTH_PORTS. */
  public B ports(int count) {
    this.ports = count;
    return self();
  }

  /**
   * How long to wait for what is not free, such as {@code 10m}; {@code 0s}: not at all.
   *
   * @throws BerthException INVALID if it is not written so
   */
  public B waitAtMost(String duration) {
    return waitAtMost(RunSpec.Builder.duration(duration));
  }

  /** How long to wait for what is not free; zero: not at all. */
  public B waitAtMost(Duration duration) {
    this.waitAtMost = Optional.of(duration);
    return self();
  }

  /** Only servers that have this label. */
  public B label(String key, String value) {
    labels.put(key, value);
    return self();
  }

  /** Only these servers, and those that earlier calls named. */
  public B servers(String... names) {
    servers.addAll(List.of(names));
    return self();
  }

  /** Not these servers, nor those that earlier calls named. */
  public B exclude(String... names) {
    exclude.addAll(List.of(names));
    return self();
  }

  final Resources resources() {
    return new Resources(
        new GpuChoice(gpus, exactGpus, gpuModel, minGpuMemoryBytes),
        ports,
        waitAtMost,
        new ServerChoice(labels, servers, exclude));
  }
}
