package berth.server.reservation;

import java.util.List;

/**
 * Ports that a reservation holds.
 *
 * @param file where they are locked; null if there are none
 */
record HeldPorts(List<Integer> ports, LockFile file) implements AutoCloseable {
  static final HeldPorts NONE = new HeldPorts(List.of(), null);

  List<Integer> descriptors() {
    return file == null ? List.of() : List.of(file.fd());
  }

  @Override
  public void close() {
    if (file != null) {
      // Unlocked by hand, because a keeper may have inherited the descriptor.
      file.unlock();
      file.close();
    }
  }
}
