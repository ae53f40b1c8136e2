package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.KernelFiles;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import java.io.IOException;
import java.io.Reader;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The folder with a folder for each run that this server knows. */
final class RunStore {
  private static final Logger log = LoggerFactory.getLogger(RunStore.class);

  /**
   * A run of an earlier process.
   *
   * @param sameBoot whether the machine has been up ever since
   */
  record Stored(RunFolder folder, RunRecord record, byte[] request, boolean sameBoot) {}

  private final Path folder;
  private final String boot = KernelFiles.bootId();

  RunStore(Path folder) {
    this.folder = folder.toAbsolutePath();
    try {
      Files.createDirectories(this.folder);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  RunFolder folderOf(String id) {
    return new RunFolder(folder.resolve(id));
  }

  /** Notes a new run. When this returns it is known, whatever happens to this process. */
  void add(RunRecord record, byte[] request) {
    RunFolder run = folderOf(record.id());
    try {
      run.create();
      Files.write(run.request(), request);
      save(record);
    } catch (IOException | RuntimeException e) {
      run.delete();
      throw e instanceof IOException io ? unwritable(io) : (RuntimeException) e;
    }
  }

  void save(RunRecord record) {
    Properties properties = new Properties();
    properties.setProperty("boot", boot);
    properties.setProperty("id", record.id());
    properties.setProperty("accepted", record.accepted().toString());
    properties.setProperty("phase", record.phase().name());
    record.started().ifPresent(started -> put(properties, started));
    record
        .stop()
        .ifPresent(
            stop -> {
              properties.setProperty("stop.reason", stop.reason().name());
              properties.setProperty("stop.message", stop.message());
            });
    record.ended().ifPresent(ended -> put(properties, ended));
    Path target = folderOf(record.id()).state();
    Path temporary = target.resolveSibling("state.new");
    try {
      try (Writer writer = Files.newBufferedWriter(temporary)) {
        properties.store(writer, null);
      }
      Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  private static void put(Properties properties, Started started) {
    properties.setProperty("started.container", started.containerId());
    properties.setProperty("started.at", started.at().toString());
    properties.setProperty("started.nanos", Long.toString(started.nanos()));
    started.pid().ifPresent(pid -> properties.setProperty("started.pid", "" + pid));
    properties.setProperty("started.isolated", "" + started.isolated());
    properties.setProperty("started.not-enforced", String.join("\n", started.notEnforced()));
    started
        .timeLimit()
        .ifPresent(limit -> properties.setProperty("started.time-limit", limit.toString()));
  }

  private static void put(Properties properties, Ended ended) {
    properties.setProperty("ended.code", "" + ended.exitCode());
    properties.setProperty("ended.reason", ended.reason().name());
    properties.setProperty("ended.message", ended.message());
    properties.setProperty("ended.wall-time", ended.wallTime().toString());
    ended.peakMemory().ifPresent(peak -> properties.setProperty("ended.peak-memory", "" + peak));
    properties.setProperty("ended.gpu-seconds", "" + ended.gpuSeconds());
    properties.setProperty("ended.at", ended.at().toString());
    properties.setProperty("ended.output", "" + ended.outputBytes());
  }

  /** The runs of earlier processes, oldest first. What no run is left of is deleted. */
  List<Stored> load() {
    List<Stored> found = new ArrayList<>();
    try (Stream<Path> folders = Files.list(folder)) {
      for (Path path : folders.toList()) {
        RunFolder run = new RunFolder(path);
        Optional<Stored> stored = read(run);
        if (stored.isPresent()) {
          found.add(stored.get());
        } else {
          run.delete();
        }
      }
    } catch (IOException e) {
      throw unwritable(e);
    }
    found.sort(Comparator.comparing(stored -> stored.record.accepted()));
    return found;
  }

  private Optional<Stored> read(RunFolder run) throws IOException {
    if (!Files.exists(run.state())) {
      // Killed before it was accepted.
      return Optional.empty();
    }
    Properties properties = new Properties();
    try (Reader reader = Files.newBufferedReader(run.state())) {
      properties.load(reader);
      return Optional.of(
          new Stored(
              run,
              record(properties),
              Files.readAllBytes(run.request()),
              boot.equals(properties.getProperty("boot"))));
    } catch (RuntimeException e) {
      log.warn("{} is damaged and ignored: {}", run.state(), e.toString());
      return Optional.empty();
    }
  }

  private static RunRecord record(Properties properties) {
    return new RunRecord(
        properties.getProperty("id"),
        Instant.parse(properties.getProperty("accepted")),
        Phase.valueOf(properties.getProperty("phase")),
        Optional.ofNullable(properties.getProperty("started.at")).map(at -> started(properties)),
        Optional.ofNullable(properties.getProperty("stop.reason"))
            .map(
                reason ->
                    new Stop(ExitReason.valueOf(reason), properties.getProperty("stop.message"))),
        Optional.ofNullable(properties.getProperty("ended.at")).map(at -> ended(properties)));
  }

  private static Started started(Properties properties) {
    String pid = properties.getProperty("started.pid");
    String notEnforced = properties.getProperty("started.not-enforced");
    return new Started(
        properties.getProperty("started.container"),
        Instant.parse(properties.getProperty("started.at")),
        Long.parseLong(properties.getProperty("started.nanos")),
        pid == null ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(pid)),
        Boolean.parseBoolean(properties.getProperty("started.isolated")),
        notEnforced.isEmpty() ? List.of() : List.of(notEnforced.split("\n")),
        Optional.ofNullable(properties.getProperty("started.time-limit")).map(Duration::parse));
  }

  private static Ended ended(Properties properties) {
    String peak = properties.getProperty("ended.peak-memory");
    return new Ended(
        Integer.parseInt(properties.getProperty("ended.code")),
        ExitReason.valueOf(properties.getProperty("ended.reason")),
        properties.getProperty("ended.message"),
        Duration.parse(properties.getProperty("ended.wall-time")),
        peak == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(peak)),
        Double.parseDouble(properties.getProperty("ended.gpu-seconds")),
        Instant.parse(properties.getProperty("ended.at")),
        Long.parseLong(properties.getProperty("ended.output")));
  }

  private BerthException unwritable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the folder of runs " + folder + ": " + e.getMessage(), e);
  }
}
