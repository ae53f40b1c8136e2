package berth.host.gpu;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which GPUs are out of service, and until when. The driver's word decides where it has one: a GPU
 * is out while the driver asks for a recovery action. Without, a critical error decides by {@link
 * XidCatalogue}, and then the GPU is out until the machine is restarted, the driver has asked for a
 * reset and answers again, or the administrator says so: a GPU that gets no work reports no errors,
 * so time heals nothing. Not thread-safe.
 */
final class GpuOutages {
  private static final Logger log = LoggerFactory.getLogger(GpuOutages.class);

  private final Map<String, Outage> outages;
  // The worst error of each since the last sample, where the driver will say what it means.
  private final Map<String, Xid> unexplained = new HashMap<>();
  // Errors of which the driver said in the last sample that they need nothing. A sample may come
  // between the error of a GPU that falls off the bus and its loss.
  private final Map<String, Xid> justDismissed = new HashMap<>();
  // The driver's word, for each GPU that answered when it was last read.
  private final Map<String, Optional<RecoveryAction>> answers = new HashMap<>();
  private final Map<String, Integer> indices = new HashMap<>();
  // GPUs that answered nothing but that they need a reset.
  private final Set<String> resetRequired = new HashSet<>();

  /**
   * @param outages by the GPU's UUID
   */
  GpuOutages(Map<String, Outage> outages) {
    this.outages = new HashMap<>(outages);
  }

  Map<String, Outage> all() {
    return Map.copyOf(outages);
  }

  /** Takes notice of an error that is not a program's fault. */
  void report(Xid xid) {
    String uuid = xid.uuid();
    if (!harmless(xid)) {
      outages.computeIfPresent(uuid, (id, known) -> known.overridden(false));
    }
    if (answers.getOrDefault(uuid, Optional.empty()).isPresent()) {
      unexplained.merge(
          uuid,
          xid,
          (before, now) ->
              before.entry().action().compareTo(now.entry().action()) > 0 ? before : now);
    } else {
      lookUp(xid);
    }
  }

  /** The GPU as it is after {@link #report}, until it is read again. */
  Gpu afterReport(Gpu gpu) {
    Xid xid = unexplained.get(gpu.uuid());
    if (xid != null && !harmless(xid) && gpu.health().healthy()) {
      return gpu.withHealth(new GpuHealth(GpuHealth.State.SICK, xid.toString()));
    }
    Outage outage = outages.get(gpu.uuid());
    if (outage == null) {
      return gpu;
    }
    return answers.containsKey(gpu.uuid()) ? outOfService(gpu, outage) : needing(gpu, outage);
  }

  /** Judges the GPUs as the source has read them. */
  List<Gpu> judge(List<Gpu> gpus) {
    Set<String> present = gpus.stream().map(Gpu::uuid).collect(Collectors.toSet());
    return gpus.stream()
        .map(gpu -> gpu.uuid().isEmpty() ? recognized(gpu, present) : gpu)
        .map(this::judge)
        .toList();
  }

  // A GPU that is lost when berthd starts does not tell who it is. It is the one that was out of
  // service at its index, unless that answers at another, or several were.
  private Gpu recognized(Gpu gpu, Set<String> present) {
    List<String> candidates =
        outages.entrySet().stream()
            .filter(known -> known.getValue().index().equals(OptionalInt.of(gpu.index())))
            .map(Map.Entry::getKey)
            .filter(uuid -> !present.contains(uuid))
            .toList();
    return candidates.size() == 1
        ? Gpu.silent(gpu.index(), candidates.get(0), gpu.pciBusId(), gpu.name(), gpu.health())
        : gpu;
  }

  private Gpu judge(Gpu gpu) {
    GpuHealth said = gpu.health();
    if (!gpu.uuid().isEmpty()) {
      indices.put(gpu.uuid(), gpu.index());
      outages.computeIfPresent(gpu.uuid(), (id, outage) -> outage.at(gpu.index()));
    }
    if (!said.healthy()) {
      return judgeSilent(gpu);
    }
    answers.put(gpu.uuid(), said.action());
    Xid xid = unexplained.remove(gpu.uuid());
    justDismissed.remove(gpu.uuid());
    if (said.action().isPresent()) {
      if (xid != null && said.action().get() == RecoveryAction.NONE) {
        justDismissed.put(gpu.uuid(), xid);
      }
      hear(gpu.uuid(), said.action().get(), Optional.ofNullable(xid));
    } else {
      // A driver that was exchanged for one without the field will not say when it is done.
      outages.computeIfPresent(gpu.uuid(), (id, outage) -> outage.untold());
      if (xid != null) {
        lookUp(xid);
      }
    }
    boolean wasReset = resetRequired.remove(gpu.uuid());
    if (wasReset && said.action().isEmpty()) {
      outages.computeIfPresent(
          gpu.uuid(),
          (id, outage) -> outage.action() == RecoveryAction.NODE_REBOOT ? outage : null);
    }
    Outage outage = outages.get(gpu.uuid());
    return outage == null ? gpu : outOfService(gpu, outage);
  }

  /**
   * Puts a GPU back into service as declared by the administrator.
   *
   * @param gpu as it was last judged
   * @param force in spite of the driver's word
   * @throws BerthException if that would be in vain, or against the driver's word
   */
  Gpu heal(Gpu gpu, boolean force) {
    String uuid = gpu.uuid();
    Optional<RecoveryAction> word = answers.get(uuid);
    if (word == null || gpu.health().state() == GpuHealth.State.UNKNOWN) {
      throw new BerthException(
          Reason.CONFLICT,
          "GPU " + gpu.index() + " does not answer, so it cannot be used: " + gpu.health());
    }
    unexplained.remove(uuid);
    justDismissed.remove(uuid);
    Outage outage = outages.get(uuid);
    boolean asked = word.isPresent() && word.get() != RecoveryAction.NONE;
    if (outage == null || !asked) {
      outages.remove(uuid);
      return gpu.withHealth(GpuHealth.answering(word));
    }
    if (!force && !outage.overridden()) {
      throw new BerthException(
          Reason.CONFLICT,
          "the driver asks for "
              + outage.action().need()
              + " of GPU "
              + gpu.index()
              + " ("
              + outage.reason()
              + "): "
              + outage.action().advice(gpu.index(), true)
              + "; it then comes back by itself (--force uses it as it is)");
    }
    outages.put(uuid, outage.overridden(true));
    return outOfService(gpu, outage.overridden(true));
  }

  // A lost GPU is lost, whatever it reported before.
  private Gpu judgeSilent(Gpu gpu) {
    answers.remove(gpu.uuid());
    // The driver was to say what the error means, and now cannot be asked.
    Optional.ofNullable(justDismissed.remove(gpu.uuid())).ifPresent(this::lookUp);
    Optional.ofNullable(unexplained.remove(gpu.uuid())).ifPresent(this::lookUp);
    Optional<RecoveryAction> word = gpu.health().action();
    if (word.isPresent() && !gpu.uuid().isEmpty()) {
      resetRequired.add(gpu.uuid());
    }
    Outage outage = outages.get(gpu.uuid());
    if (outage != null) {
      return needing(gpu, outage);
    }
    return word.isEmpty()
        ? gpu
        : gpu.withHealth(
            gpu.health()
                .needing(word.get(), word.get().advice(gpu.index(), /* driverTells= */ true)));
  }

  /** The driver's word replaces whatever was known. */
  private void hear(String uuid, RecoveryAction word, Optional<Xid> xid) {
    if (word == RecoveryAction.NONE) {
      outages.remove(uuid);
      return;
    }
    Optional<Outage> known = Optional.ofNullable(outages.get(uuid));
    String reason =
        xid.map(Xid::toString)
            .or(() -> known.map(Outage::reason))
            .orElse("the driver requests a recovery action");
    boolean overridden =
        xid.filter(error -> !harmless(error)).isEmpty()
            && known.filter(old -> old.overridden() && old.action() == word).isPresent();
    outages.put(uuid, new Outage(index(uuid), word, reason, true, overridden));
  }

  private void lookUp(Xid xid) {
    XidCatalogue.Entry entry = xid.entry();
    log.warn("{}: {}; it needs {}: {}", xid.uuid(), xid, entry.action().need(), entry.why());
    if (entry.action() == RecoveryAction.NONE) {
      return;
    }
    Outage added = new Outage(index(xid.uuid()), entry.action(), xid.toString(), false, false);
    outages.merge(
        xid.uuid(),
        added,
        (known, now) -> known.action().orWorse(now.action()) == known.action() ? known : now);
  }

  private OptionalInt index(String uuid) {
    Integer index = indices.get(uuid);
    return index == null ? OptionalInt.empty() : OptionalInt.of(index);
  }

  private static boolean harmless(Xid xid) {
    return xid.entry().action() == RecoveryAction.NONE;
  }

  private static Gpu outOfService(Gpu gpu, Outage outage) {
    GpuHealth verdict =
        outage.overridden()
            ? GpuHealth.HEALTHY
            : new GpuHealth(GpuHealth.State.SICK, outage.reason());
    return gpu.withHealth(
        verdict.needing(
            outage.action(), outage.action().advice(gpu.index(), outage.driverTells())));
  }

  private static Gpu needing(Gpu gpu, Outage outage) {
    return gpu.withHealth(
        gpu.health()
            .needing(outage.action(), outage.action().advice(gpu.index(), outage.driverTells())));
  }
}
