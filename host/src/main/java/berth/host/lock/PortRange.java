package berth.host.lock;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The TCP ports that reservations may hold. A port is a lock on a byte of a file that all of
 * Berth's processes on the machine share, so none is given twice. Any thread may call.
 */
public final class PortRange {
  private static final Logger log = LoggerFactory.getLogger(PortRange.class);
  private static final Path KERNEL = Path.of("/proc/sys/net/ipv4");

  private final List<Integer> ports;
  private final String name;
  private final Set<Integer> given = new HashSet<>();
  private int next;

  private PortRange(List<Integer> ports, String name) {
    this.ports = List.copyOf(ports);
    this.name = name;
  }

  /**
   * The ports {@code first-last}, without those that the kernel may give to outgoing connections at
   * any moment.
   */
  public static PortRange parse(String range) {
    String[] ends = range.split("-", -1);
    try {
      int first = Integer.parseInt(ends[0].trim());
      int last = Integer.parseInt(ends[ends.length - 1].trim());
      if (ends.length > 2 || first < 1 || last > 65535 || first > last) {
        throw new NumberFormatException();
      }
      Set<Integer> ephemeral = ephemeral();
      List<Integer> usable =
          IntStream.rangeClosed(first, last).boxed().filter(p -> !ephemeral.contains(p)).toList();
      int lost = last - first + 1 - usable.size();
      if (lost > 0) {
        log.warn(
            "{} ports of {} are skipped, because the kernel uses them for outgoing connections; to"
                + " use them, add them to net.ipv4.ip_local_reserved_ports",
            lost,
            range);
      }
      return new PortRange(usable, range);
    } catch (NumberFormatException e) {
      throw new BerthException(
          Reason.INVALID, "'" + range + "' is not a range of ports such as 20000-20999");
    }
  }

  public int size() {
    return ports.size();
  }

  /**
   * Refuses what the range can never give.
   *
   * @throws BerthException if so
   */
  public void check(int count) {
    if (count > ports.size()) {
      throw new BerthException(
          Reason.INVALID, count + " ports asked, the range " + name + " has " + ports.size());
    }
  }

  /**
   * Takes {@code count} ports on which nobody listens.
   *
   * @throws BerthException if there are too few
   */
  public synchronized HeldPorts take(LockFolder folder, int count) {
    if (count == 0) {
      return new HeldPorts(List.of(), List.of(), () -> {});
    }
    for (int tried = 0; tried < LockFolder.MOST_TRIES; tried++) {
      LockFile file = LockFolder.settled(folder.ports());
      boolean ours = false;
      try {
        List<Integer> taken = lock(file, count);
        ours = file.isCurrent();
        if (ours) {
          return held(folder, taken, List.of(file));
        }
      } finally {
        if (!ours) {
          file.close();
        }
      }
    }
    throw LockFolder.replacedAgainAndAgain(folder.ports());
  }

  private List<Integer> lock(LockFile file, int count) {
    TreeSet<Integer> taken = new TreeSet<>();
    // Goes round, so that a port rests for a while after its release.
    for (int tried = 0; tried < ports.size() && taken.size() < count; tried++) {
      int port = ports.get(next);
      next = (next + 1) % ports.size();
      // Not those that this process gave out under a file that was removed since.
      if (!given.contains(port) && file.tryLock(LibC.F_WRLCK, port, 1)) {
        if (nobodyListensOn(port)) {
          taken.add(port);
        } else {
          file.unlock(port, 1);
        }
      }
    }
    if (taken.size() < count) {
      throw new BerthException(
          Reason.EXHAUSTED, count + " ports asked, " + taken.size() + " free in " + name);
    }
    return List.copyOf(taken);
  }

  /**
   * Goes on with ports that were taken by an earlier process.
   *
   * @param files open files in which they are locked; none if this process has no part in that
   */
  public synchronized HeldPorts adopt(
      LockFolder folder, List<Integer> taken, List<LockFile> files) {
    return held(folder, taken, files);
  }

  private HeldPorts held(LockFolder folder, List<Integer> taken, List<LockFile> files) {
    given.addAll(taken);
    List<LockFile.Range> bytes = taken.stream().map(port -> new LockFile.Range(port, 1)).toList();
    return new HeldPorts(
        taken,
        files.isEmpty() ? List.of() : List.of(new HeldLock(folder.ports(), bytes, files)),
        () -> free(taken));
  }

  private synchronized void free(List<Integer> taken) {
    taken.forEach(given::remove);
  }

  private static boolean nobodyListensOn(int port) {
    try (ServerSocket socket = new ServerSocket()) {
      socket.setReuseAddress(false);
      socket.bind(new InetSocketAddress(port));
      return true;
    } catch (IOException e) {
      return false;
    }
  }

  private static Set<Integer> ephemeral() {
    Set<Integer> ports = new TreeSet<>();
    try {
      String[] range = KernelFiles.firstLine(KERNEL.resolve("ip_local_port_range")).split("\\s+");
      IntStream.rangeClosed(Integer.parseInt(range[0]), Integer.parseInt(range[1]))
          .forEach(ports::add);
      for (String part :
          KernelFiles.firstLine(KERNEL.resolve("ip_local_reserved_ports")).split(",")) {
        if (!part.isBlank()) {
          String[] ends = part.split("-");
          IntStream.rangeClosed(Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1]))
              .forEach(ports::remove);
        }
      }
    } catch (IOException e) {
      // Not told here, as in some containers: then the administrator's range is all we know.
    }
    return ports;
  }
}
