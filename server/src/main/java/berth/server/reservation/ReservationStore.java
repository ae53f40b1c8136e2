package berth.server.reservation;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.HeldReservation.Kept;
import berth.server.reservation.Reservation.Expiry;
import berth.server.reservation.Reservation.HeldGpu;
import berth.server.reservation.Reservation.Owner;
import java.io.IOException;
import java.io.Reader;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder in which a daemon remembers, over its own end, the reservations that go on without it,
 * and whether it drains. One daemon uses it at a time.
 */
final class ReservationStore implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(ReservationStore.class);
  private static final String SUFFIX = ".reservation";
  private static final String UNFINISHED = ".new";

  /**
   * A reservation with what it takes to go on with it.
   *
   * @param ofRun whether it has no life but that of its run
   * @param own the keeper of its own life
   * @param holds the keepers of its runs, by run
   */
  record Stored(
      Reservation reservation,
      String requestId,
      boolean ofRun,
      Optional<Kept> own,
      Map<String, Kept> holds) {}

  private final Path folder;
  private final LockFile lock;

  /**
   * @throws BerthException if the folder cannot be used, or another daemon uses it
   */
  ReservationStore(Path folder) {
    this.folder = folder.toAbsolutePath();
    try {
      Files.createDirectories(this.folder);
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "cannot make the state folder "
              + this.folder
              + " ("
              + e
              + "); choose another with --state-dir",
          e);
    }
    lock = LockFile.open(this.folder.resolve("lock"));
    if (!lock.tryLock()) {
      lock.close();
      throw new BerthException(
          Reason.UNAVAILABLE,
          "another berthd uses the state folder "
              + this.folder
              + "; give this one another --name or --state-dir");
    }
  }

  @Override
  public void close() {
    lock.close();
  }

  /** Whether some process, this one included, has opened a folder. */
  static boolean inUse(Path folder) {
    Path file = folder.toAbsolutePath().resolve("lock");
    if (!Files.exists(file)) {
      return false;
    }
    try (LockFile other = LockFile.open(file)) {
      return !other.tryLock();
    }
  }

  boolean draining() {
    return Files.exists(drainFile());
  }

  void setDraining(boolean draining) {
    try {
      if (!draining) {
        Files.deleteIfExists(drainFile());
      } else if (!draining()) {
        Files.createFile(drainFile());
      }
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  void save(Stored stored) {
    Reservation reservation = stored.reservation;
    Properties record = new Properties();
    record.setProperty("boot", KernelFiles.bootId());
    record.setProperty("id", reservation.id());
    record.setProperty(
        "gpus",
        reservation.gpus().stream()
            .map(gpu -> gpu.index() + "=" + gpu.uuid())
            .collect(Collectors.joining(",")));
    record.setProperty("ports", join(reservation.ports()));
    record.setProperty("user", reservation.owner().user());
    record.setProperty("host", reservation.owner().host());
    record.setProperty("purpose", reservation.purpose());
    record.setProperty("granted", reservation.granted().toString());
    reservation
        .expires()
        .ifPresent(
            expiry -> {
              record.setProperty("expires", expiry.wall().toString());
              record.setProperty("expires.nanos", Long.toString(expiry.nanos()));
            });
    reservation.process().ifPresent(pid -> record.setProperty("process", Integer.toString(pid)));
    record.setProperty("request", stored.requestId);
    record.setProperty("of-run", Boolean.toString(stored.ofRun));
    stored.own.ifPresent(kept -> record.setProperty("keeper", text(kept)));
    record.setProperty("runs", String.join(",", stored.holds.keySet()));
    stored.holds.forEach((run, kept) -> record.setProperty("keeper." + run, text(kept)));
    Path target = file(reservation.id());
    Path temporary = folder.resolve(reservation.id() + UNFINISHED);
    try {
      try (Writer writer = Files.newBufferedWriter(temporary)) {
        record.store(writer, null);
      }
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  void delete(String id) {
    try {
      Files.deleteIfExists(file(id));
    } catch (IOException e) {
      log.warn("cannot delete {}: {}", file(id), e.getMessage());
    }
  }

  /** What still goes on of what was saved; the rest is deleted. */
  List<Stored> load() {
    List<Stored> found = new ArrayList<>();
    try (Stream<Path> files = Files.list(folder)) {
      for (Path path : files.filter(ReservationStore::isOurs).sorted().toList()) {
        Optional<Stored> stored =
            path.toString().endsWith(UNFINISHED) ? Optional.empty() : read(path);
        if (stored.isPresent() && (stored.get().own.isPresent() || !stored.get().holds.isEmpty())) {
          found.add(stored.get());
        } else {
          Files.delete(path);
        }
      }
    } catch (IOException e) {
      throw unwritable(e);
    }
    return found;
  }

  private static boolean isOurs(Path path) {
    return path.toString().endsWith(SUFFIX) || path.toString().endsWith(UNFINISHED);
  }

  private static Optional<Stored> read(Path path) throws IOException {
    Properties record = new Properties();
    try (Reader reader = Files.newBufferedReader(path)) {
      record.load(reader);
    }
    if (!KernelFiles.bootId().equals(record.getProperty("boot"))) {
      // No process and no monotonic clock outlives a reboot.
      return Optional.empty();
    }
    try {
      Optional<Expiry> expires =
          Optional.ofNullable(record.getProperty("expires"))
              .map(
                  wall ->
                      new Expiry(
                          Instant.parse(wall),
                          Long.parseLong(record.getProperty("expires.nanos"))));
      String process = record.getProperty("process");
      Map<String, Kept> holds = new LinkedHashMap<>();
      for (String run : split(record.getProperty("runs"))) {
        living(record.getProperty("keeper." + run)).ifPresent(kept -> holds.put(run, kept));
      }
      return Optional.of(
          new Stored(
              new Reservation(
                  record.getProperty("id"),
                  split(record.getProperty("gpus")).stream()
                      .map(gpu -> gpu.split("=", 2))
                      .map(parts -> new HeldGpu(Integer.parseInt(parts[0]), parts[1]))
                      .toList(),
                  numbers(record.getProperty("ports")),
                  new Owner(record.getProperty("user"), record.getProperty("host")),
                  record.getProperty("purpose"),
                  Instant.parse(record.getProperty("granted")),
                  expires,
                  process == null ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(process)),
                  List.of(),
                  ""),
              record.getProperty("request"),
              Boolean.parseBoolean(record.getProperty("of-run")),
              living(record.getProperty("keeper")),
              holds));
    } catch (RuntimeException e) {
      log.warn("{} is damaged and ignored: {}", path, e.toString());
      return Optional.empty();
    }
  }

  private static String text(Kept kept) {
    return String.join(
        " ",
        Integer.toString(kept.keeper().pid()),
        Long.toString(kept.keeper().started()),
        "gpus=" + join(kept.gpuDescriptors()),
        "ports=" + join(kept.portDescriptors()));
  }

  private static Optional<Kept> living(String text) {
    if (text == null) {
      return Optional.empty();
    }
    String[] words = text.split(" ");
    Keeper keeper = new Keeper(Integer.parseInt(words[0]), Long.parseLong(words[1]));
    return Optional.of(
            new Kept(
                keeper,
                numbers(words[2].substring("gpus=".length())),
                numbers(words[3].substring("ports=".length()))))
        .filter(kept -> keeper.alive());
  }

  private Path file(String id) {
    return folder.resolve(id + SUFFIX);
  }

  private Path drainFile() {
    return folder.resolve("draining");
  }

  private BerthException unwritable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the state folder " + folder + ": " + e.getMessage(), e);
  }

  private static String join(List<Integer> numbers) {
    return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
  }

  private static List<Integer> numbers(String text) {
    return split(text).stream().map(Integer::valueOf).toList();
  }

  private static List<String> split(String text) {
    return text.isEmpty() ? List.of() : Arrays.asList(text.split(","));
  }
}
