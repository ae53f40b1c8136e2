package berth.server.reservation;

import berth.rpc.BerthException;
import berth.server.reservation.Reservation.HeldGpu;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** GPUs whose locks this process holds. Any thread may call. */
final class HeldGpus implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(HeldGpus.class);

  private final LockProtocol protocol;
  private final List<HeldGpu> gpus;
  private final List<LockFile> files;
  private byte[] description = {};
  private boolean closed;

  /**
   * @param gpus by ascending index
   * @param files their locked files, in the same order
   */
  HeldGpus(LockProtocol protocol, List<HeldGpu> gpus, List<LockFile> files) {
    this.protocol = protocol;
    this.gpus = List.copyOf(gpus);
    this.files = new ArrayList<>(files);
  }

  List<HeldGpu> gpus() {
    return gpus;
  }

  boolean has(int index) {
    return gpus.stream().anyMatch(gpu -> gpu.index() == index);
  }

  /** Tells other processes who holds the locks, in the lock files themselves. */
  synchronized void describe(String text) {
    description = (text + "\n").getBytes(StandardCharsets.UTF_8);
    files.forEach(this::writeDescription);
  }

  /** The descriptors whose inheritance is the inheritance of the locks. */
  synchronized List<Integer> descriptors() {
    return files.stream().map(LockFile::fd).toList();
  }

  /** Frees the GPUs, the lowest index first. */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    gpus.forEach(gpu -> protocol.freed(gpu.index()));
    for (LockFile file : files) {
      // Unlocked by hand, because a keeper may have inherited the descriptor.
      file.unlock();
      file.close();
    }
    protocol.forget(this);
  }

  /**
   * Locks the files anew that somebody removed or replaced meanwhile. The old ones stay locked too,
   * for those who have them open. Returns whether there were any.
   */
  synchronized boolean relockReplaced() {
    if (closed) {
      return false;
    }
    boolean replaced = false;
    for (HeldGpu gpu : gpus) {
      boolean current =
          files.stream()
              .anyMatch(f -> f.path().equals(protocol.folder().gpu(gpu.index())) && f.isCurrent());
      if (!current) {
        replaced = true;
        relock(gpu.index());
      }
    }
    return replaced;
  }

  private void relock(int index) {
    try {
      Optional<LockFile> file = LockFolder.relock(protocol.folder().gpu(index));
      if (file.isPresent()) {
        writeDescription(file.get());
        files.add(file.get());
        log.warn(
            "somebody removed the lock file of GPU {} while it was held; locked it anew", index);
      } else {
        log.error(
            "somebody removed the lock file of GPU {} while it was held, and somebody else has"
                + " locked a new one: two may be using that GPU",
            index);
      }
    } catch (BerthException e) {
      log.error("the lock file of GPU {} is gone while it is held: {}", index, e.getMessage());
    }
  }

  private void writeDescription(LockFile file) {
    try {
      file.write(description);
    } catch (BerthException e) {
      // The lock is what counts; without room on the disk nobody learns who has it.
      log.warn("{}", e.getMessage());
    }
  }
}
