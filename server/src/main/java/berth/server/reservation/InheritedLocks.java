package berth.server.reservation;

import berth.host.lock.HeldGpus;
import berth.host.lock.HeldLock;
import berth.host.lock.Kept;
import berth.host.lock.LockFile;
import berth.host.lock.LockFolder;
import berth.host.lock.LockProtocol;
import berth.host.lock.LockedGpu;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Descriptors of ours for the locks that keepers of an earlier daemon hold. */
final class InheritedLocks {
  private final Map<String, List<LockFile>> files = new LinkedHashMap<>();

  private InheritedLocks() {}

  /**
   * Shares the locks of the keepers of a reservation. Empty if the kernel does not allow that to
   * this user.
   */
  static Optional<InheritedLocks> of(ReservationStore.Stored stored, LockFolder folder) {
    List<Kept> keepers = new ArrayList<>();
    stored.holds().values().forEach(kept -> keepers.addAll(kept.all()));
    stored.own().ifPresent(kept -> keepers.addAll(kept.all()));
    // Files that were locked anew only later keepers have.
    keepers.sort((a, b) -> b.descriptorCount() - a.descriptorCount());
    return keepers.stream().flatMap(kept -> share(kept, folder).stream()).findFirst();
  }

  private static Optional<InheritedLocks> share(Kept kept, LockFolder folder) {
    List<String> names = new ArrayList<>();
    List<Integer> theirs = new ArrayList<>();
    kept.descriptors()
        .forEach(
            (name, descriptors) -> {
              descriptors.forEach(descriptor -> names.add(name));
              theirs.addAll(descriptors);
            });
    return kept.keeper()
        .share(theirs)
        .map(
            ours -> {
              InheritedLocks locks = new InheritedLocks();
              for (int i = 0; i < ours.size(); i++) {
                locks
                    .files
                    .computeIfAbsent(names.get(i), name -> new ArrayList<>())
                    .add(LockFile.adopt(folder.path().resolve(names.get(i)), ours.get(i)));
              }
              return locks;
            });
  }

  /** The open files that stood under this name, one after the other. */
  List<LockFile> files(Path path) {
    return files.getOrDefault(path.getFileName().toString(), List.of());
  }

  /** The GPUs of the reservation, if it has any. */
  Optional<HeldGpus> gpus(Reservation reservation, LockProtocol protocol) {
    if (reservation.gpus().isEmpty()) {
      return Optional.empty();
    }
    List<HeldLock> locks = new ArrayList<>();
    for (LockedGpu gpu : reservation.gpus()) {
      Path path = protocol.folder().gpu(gpu.index());
      locks.add(new HeldLock(path, List.of(LockFile.Range.WHOLE), files(path)));
    }
    return Optional.of(new HeldGpus(protocol, reservation.gpus(), locks));
  }
}
