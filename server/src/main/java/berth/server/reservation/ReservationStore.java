package berth.server.reservation;

import berth.host.lock.Kept;
import berth.host.lock.KernelFiles;
import berth.host.lock.KnownProcess;
import berth.host.lock.LockFile;
import berth.host.lock.LockedGpu;
import berth.host.state.DamagedFileException;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation.Expiry;
import berth.server.reservation.Reservation.Owner;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
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
 * and whether it drains. One daemon uses it at a time; any thread of it may call, for each
 * reservation one at a time.
 */
final class ReservationStore implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(ReservationStore.class);
  private static final String PREFIX = "r-";
  private static final String SUFFIX = ".reservation";
  private static final String LOCK = "lock";
  private static final int OWN_LOCK_MODE = 0600;

  /**
   * A reservation with what it takes to go on with it.
   *
   * @param ofRun whether it has no life but that of its run
   * @param lease for how long it was granted or prolonged, if for a time
   * @param process the process it lives by
   * @param own the keeper of its own life
   * @param holds the keepers of its runs, by run
   */
  record Stored(
      Reservation reservation,
      String requestId,
      boolean ofRun,
      Optional<Duration> lease,
      Optional<KnownProcess> process,
      Optional<Kept> own,
      Map<String, Kept> holds) {
    boolean goesOn() {
      return own.isPresent() || !holds.isEmpty();
    }
  }

  private final Path folder;
  private final DurableFiles files;
  private final LockFile lock;

  /**
   * @throws BerthException if the folder cannot be used, or another daemon uses it
   */
  ReservationStore(Path folder, DurableFiles files) {
    this.folder = folder.toAbsolutePath();
    this.files = files;
    try {
      StateFolder.create(this.folder);
    } catch (IOException e) {
      throw new BerthException(
          Reason.UNAVAILABLE,
          "cannot create the state folder "
              + this.folder
              + " ("
              + e
              + "); choose another with --state-dir",
          e);
    }
    lock = LockFile.open(lockOf(folder), OWN_LOCK_MODE);
    if (!lock.tryLock()) {
      lock.close();
      throw new BerthException(
          Reason.UNAVAILABLE,
          "another berthd uses the state folder "
              + this.folder
              + "; set another --name or --state-dir");
    }
    lock.restrictTo(OWN_LOCK_MODE);
  }

  /** Which file whoever serves a folder has locked. */
  static Path lockOf(Path folder) {
    return folder.toAbsolutePath().resolve(LOCK);
  }

  @Override
  public void close() {
    lock.close();
  }

  boolean draining() {
    return Files.exists(drainFile());
  }

  void setDraining(boolean draining) {
    boolean before = draining();
    try {
      markDraining(draining);
      files.flush(folder);
    } catch (IOException e) {
      try {
        // Else the next daemon would do what this one has refused.
        markDraining(before);
      } catch (IOException unmarked) {
        e.addSuppressed(unmarked);
      }
      throw unwritable(e);
    }
  }

  private void markDraining(boolean draining) throws IOException {
    if (!draining) {
      Files.deleteIfExists(drainFile());
    } else if (!draining()) {
      Files.createFile(drainFile());
    }
  }

  /** Writes a reservation down; it is on disk when this returns. */
  void save(Stored stored) {
    Path file = file(stored.reservation.id());
    try {
      files.replace(file, RecordFile.content(properties(stored)));
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

  /**
   * What still goes on of what was saved. The rest is deleted, but for what cannot be read: that is
   * set aside.
   */
  List<Stored> load() {
    List<Stored> found = new ArrayList<>();
    List<Path> all;
    try (Stream<Path> list = Files.list(folder)) {
      all = list.filter(ReservationStore::isOurs).sorted().toList();
    } catch (IOException e) {
      throw unwritable(e);
    }
    for (Path path : all) {
      try {
        Optional<Stored> stored =
            DurableFiles.isUnfinished(path) ? Optional.empty() : read(path).filter(Stored::goesOn);
        if (stored.isPresent()) {
          found.add(stored.get());
        } else {
          Files.delete(path);
        }
      } catch (DamagedFileException e) {
        setAside(path, e.getMessage());
      } catch (IOException e) {
        log.error("the reservation in {} is ignored, it cannot be read: {}", path, e.toString());
      }
    }
    return found;
  }

  private static void setAside(Path path, String why) {
    try {
      log.error("{}; it is kept as {}", why, StateFolder.setAside(path));
    } catch (IOException e) {
      log.error("{}; it cannot be renamed: {}", why, e.toString());
    }
  }

  private static boolean isOurs(Path path) {
    String name = path.getFileName().toString();
    return name.startsWith(PREFIX) && (name.endsWith(SUFFIX) || DurableFiles.isUnfinished(path));
  }

  private static Properties properties(Stored stored) {
    Reservation reservation = stored.reservation;
    Properties record = new Properties();
    record.setProperty("boot", KernelFiles.bootId());
    record.setProperty("id", reservation.id());
    record.setProperty(
        "gpus",
        reservation.gpus().stream()
            .map(gpu -> gpu.index() + "=" + gpu.uuid())
            .collect(Collectors.joining(",")));
    record.setProperty(
        "ports",
        reservation.ports().stream().map(String::valueOf).collect(Collectors.joining(",")));
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
    stored.lease.ifPresent(lease -> record.setProperty("lease", lease.toString()));
    stored.process.ifPresent(
        process -> {
          record.setProperty("process", Integer.toString(process.pid()));
          record.setProperty("process.started", Long.toString(process.started()));
        });
    record.setProperty("renewed", Boolean.toString(reservation.renewed()));
    record.setProperty("request", stored.requestId);
    record.setProperty("of-run", Boolean.toString(stored.ofRun));
    stored.own.ifPresent(kept -> record.setProperty("keeper", kept.text()));
    record.setProperty("runs", String.join(",", stored.holds.keySet()));
    stored.holds.forEach((run, kept) -> record.setProperty("keeper." + run, kept.text()));
    return record;
  }

  private static Optional<Stored> read(Path path) throws IOException {
    Properties record = RecordFile.readProperties(path);
    if (!KernelFiles.bootId().equals(record.getProperty("boot"))) {
      // No process and no monotonic clock outlives a reboot.
      return Optional.empty();
    }
    try {
      Stored stored = parse(record);
      if (!path.getFileName().toString().equals(stored.reservation.id() + SUFFIX)) {
        throw new IllegalArgumentException("it is that of " + stored.reservation.id());
      }
      return Optional.of(stored);
    } catch (RuntimeException e) {
      throw new DamagedFileException(path + " is damaged: " + e);
    }
  }

  private static Stored parse(Properties record) {
    Optional<Expiry> expires =
        Optional.ofNullable(record.getProperty("expires"))
            .map(
                wall ->
                    new Expiry(
                        Instant.parse(wall), Long.parseLong(record.getProperty("expires.nanos"))));
    Optional<KnownProcess> process =
        Optional.ofNullable(record.getProperty("process"))
            .map(
                pid ->
                    new KnownProcess(
                        Integer.parseInt(pid),
                        Long.parseLong(record.getProperty("process.started"))));
    Map<String, Kept> holds = new LinkedHashMap<>();
    for (String run : split(record.getProperty("runs"))) {
      Kept.living(record.getProperty("keeper." + run)).ifPresent(kept -> holds.put(run, kept));
    }
    return new Stored(
        new Reservation(
            record.getProperty("id"),
            split(record.getProperty("gpus")).stream()
                .map(gpu -> gpu.split("=", 2))
                .map(parts -> new LockedGpu(Integer.parseInt(parts[0]), parts[1]))
                .toList(),
            split(record.getProperty("ports")).stream().map(Integer::valueOf).toList(),
            new Owner(record.getProperty("user"), record.getProperty("host")),
            record.getProperty("purpose"),
            Instant.parse(record.getProperty("granted")),
            expires,
            process.map(known -> OptionalInt.of(known.pid())).orElse(OptionalInt.empty()),
            List.of(),
            "",
            Boolean.parseBoolean(record.getProperty("renewed"))),
        record.getProperty("request"),
        Boolean.parseBoolean(record.getProperty("of-run")),
        Optional.ofNullable(record.getProperty("lease")).map(Duration::parse),
        process,
        Optional.ofNullable(record.getProperty("keeper")).flatMap(Kept::living),
        holds);
  }

  private Path file(String id) {
    return folder.resolve(id + SUFFIX);
  }

  private Path drainFile() {
    return folder.resolve("draining");
  }

  private BerthException unwritable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the state folder " + folder + ": " + why(e), e);
  }

  // Without the name of the file, which is another one each time.
  private static String why(IOException e) {
    return e instanceof FileSystemException file && file.getReason() != null
        ? file.getReason()
        : String.valueOf(e.getMessage());
  }

  private static List<String> split(String text) {
    return text.isEmpty() ? List.of() : Arrays.asList(text.split(","));
  }
}
