package berth.host.gpu;

import berth.host.state.DamagedFileException;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Outages on disk: a file for each GPU, named by its UUID. A restart of the machine ends an outage,
 * whatever it is. A thread of its own writes, so that a slow or full disk delays no sample; what
 * could not be written is tried again.
 */
final class OutageFiles implements OutageStore {
  private static final Logger log = LoggerFactory.getLogger(OutageFiles.class);
  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");
  private static final Duration RETRY = Duration.ofSeconds(5);
  private static final Pattern INDEX = Pattern.compile("[0-9]{1,6}");
  // UUIDs are the driver's own; a simulated one may be anything.
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}");

  private final Path folder;
  private final DurableFiles files;
  private final String bootId;
  private final Duration retry;
  // Guarded by `wakeUp`.
  private final Object wakeUp = new Object();
  private Map<String, Outage> wanted = Map.of();
  private boolean closed;
  // Held for as long as the disk takes.
  private final Object disk = new Object();
  private final Map<String, Outage> written = new HashMap<>();
  // Of these and of earlier boots.
  private final Set<String> names = new HashSet<>();
  private String failure = "";

  /**
   * @param bootId differs from one start of the machine to the next
   * @param retry from one attempt to write to the next
   */
  OutageFiles(Path stateFolder, DurableFiles files, String bootId, Duration retry) {
    this.folder = stateFolder.toAbsolutePath().resolve("gpu-outages");
    this.files = files;
    this.bootId = bootId;
    this.retry = retry;
  }

  /** Opens the folder of a daemon and starts the thread that writes. */
  static OutageFiles open(Path stateFolder, DurableFiles files, Vitals vitals) {
    OutageFiles opened = new OutageFiles(stateFolder, files, currentBoot(), RETRY);
    opened.start(vitals);
    return opened;
  }

  void start(Vitals vitals) {
    vitals.start("gpu-outages", this::writeNext);
  }

  /**
   * @throws BerthException if the folder cannot be read
   */
  @Override
  public Map<String, Outage> load() {
    Map<String, Outage> loaded = new HashMap<>();
    synchronized (disk) {
      try (Stream<Path> found = Files.list(folder)) {
        for (Path file : found.sorted().toList()) {
          if (DurableFiles.isUnfinished(file)) {
            Files.deleteIfExists(file);
          } else if (!StateFolder.isSetAside(file)) {
            load(file, loaded);
          }
        }
      } catch (NoSuchFileException e) {
        // Nothing was ever out of service.
      } catch (IOException e) {
        throw new BerthException(Reason.UNAVAILABLE, "cannot read " + folder + ": " + e, e);
      }
      // Not after the lock: the thread that writes would find files that nobody wants.
      save(loaded);
    }
    return loaded;
  }

  private void load(Path file, Map<String, Outage> loaded) {
    String uuid = file.getFileName().toString();
    names.add(uuid);
    try {
      Properties record = RecordFile.readProperties(file);
      Outage outage = outage(file, record);
      if (record.getProperty("boot", "").equals(bootId)) {
        written.put(uuid, outage);
        log.warn("GPU {} is still out of service: {}", uuid, outage.reason());
        loaded.put(uuid, outage);
      } else {
        log.info("GPU {} was out of service ({}) before a reboot", uuid, outage.reason());
      }
    } catch (IOException e) {
      log.error("{}; its GPU stays out of service", e.getMessage());
      Outage unknown =
          new Outage(
              OptionalInt.empty(),
              RecoveryAction.INSPECT,
              "the record of its outage is damaged",
              false,
              false);
      loaded.put(uuid, unknown);
      try {
        log.error("{} is kept as {}", file, StateFolder.setAside(file));
      } catch (IOException failure) {
        log.error("cannot rename {}: {}", file, failure.toString());
      }
    }
  }

  @Override
  public void save(Map<String, Outage> outages) {
    synchronized (wakeUp) {
      wanted = Map.copyOf(outages);
      wakeUp.notifyAll();
    }
  }

  @Override
  public void flush() throws IOException {
    synchronized (disk) {
      Map<String, Outage> target = new HashMap<>(wanted());
      target.keySet().removeIf(uuid -> !NAME.matcher(uuid).matches());
      Map<Path, byte[]> contents = new HashMap<>();
      target.forEach(
          (uuid, outage) -> {
            if (!outage.equals(written.get(uuid))) {
              contents.put(folder.resolve(uuid), content(outage));
            }
          });
      Set<String> over = new HashSet<>(names);
      over.removeAll(target.keySet());
      if (contents.isEmpty() && over.isEmpty()) {
        return;
      }
      StateFolder.create(folder);
      // What is over takes no room, and makes some.
      for (String uuid : over) {
        Files.deleteIfExists(folder.resolve(uuid));
      }
      if (!contents.isEmpty()) {
        files.write(contents, folder.getParent());
      } else {
        files.flush(folder);
      }
      written.clear();
      written.putAll(target);
      names.clear();
      names.addAll(target.keySet());
    }
  }

  @Override
  public void close() {
    synchronized (wakeUp) {
      closed = true;
      wakeUp.notifyAll();
    }
    try {
      flush();
    } catch (IOException e) {
      log.warn("cannot store which GPUs are out of service: {}", e.toString());
    }
  }

  private Map<String, Outage> wanted() {
    synchronized (wakeUp) {
      return wanted;
    }
  }

  private boolean writeNext() throws InterruptedException {
    Map<String, Outage> tried = wanted();
    boolean failed = false;
    try {
      flush();
      failure = "";
    } catch (IOException e) {
      failed = true;
      if (!failure.equals(e.toString())) {
        failure = e.toString();
        log.warn("cannot write which GPUs are out of service to {}: {}", folder, failure);
      }
    }
    synchronized (wakeUp) {
      while (!closed && wanted == tried && !failed) {
        wakeUp.wait();
      }
      if (failed && !closed) {
        wakeUp.wait(retry.toMillis());
      }
      return !closed;
    }
  }

  private byte[] content(Outage outage) {
    Properties record = new Properties();
    record.setProperty("boot", bootId);
    outage.index().ifPresent(index -> record.setProperty("index", Integer.toString(index)));
    record.setProperty("action", outage.action().name());
    record.setProperty("reason", outage.reason());
    record.setProperty("driver-tells", Boolean.toString(outage.driverTells()));
    record.setProperty("overridden", Boolean.toString(outage.overridden()));
    return RecordFile.content(record);
  }

  private static Outage outage(Path file, Properties record) throws DamagedFileException {
    try {
      String index = record.getProperty("index", "");
      return new Outage(
          INDEX.matcher(index).matches()
              ? OptionalInt.of(Integer.parseInt(index))
              : OptionalInt.empty(),
          RecoveryAction.valueOf(record.getProperty("action", "")),
          record.getProperty("reason", ""),
          Boolean.parseBoolean(record.getProperty("driver-tells")),
          Boolean.parseBoolean(record.getProperty("overridden")));
    } catch (IllegalArgumentException e) {
      throw new DamagedFileException(file + " is damaged: " + e.getMessage());
    }
  }

  private static String currentBoot() {
    try {
      return Files.readString(BOOT_ID).strip();
    } catch (IOException e) {
      log.warn("cannot read the boot ID of this machine: {}", e.toString());
      return "";
    }
  }
}
