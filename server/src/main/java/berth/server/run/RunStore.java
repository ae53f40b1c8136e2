package berth.server.run;

import berth.host.lock.KernelFiles;
import berth.host.state.DamagedFileException;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.KnownFields;
import berth.rpc.Reason;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import berth.v1.RunCodeRequest;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Parser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The folder with a folder for each run that this server knows. */
final class RunStore {
  private static final Logger log = LoggerFactory.getLogger(RunStore.class);
  private static final Pattern NAME = Pattern.compile("run-[0-9a-f]{10}");
  private static final Parser<RunCodeRequest> REQUESTS =
      KnownFields.parser(RunCodeRequest.getDefaultInstance());
  private static final int READERS = 4;

  /**
   * A run of an earlier process.
   *
   * @param spec without what only its start needs; empty for one that is over, which is only read
   *     when somebody asks
   * @param sameBoot whether the machine has been up ever since
   * @param damaged whether the record is made up, because the one on disk was damaged: it may have
   *     been started
   */
  record Stored(
      RunFolder folder,
      RunRecord record,
      Optional<RequestedRun> spec,
      boolean sameBoot,
      boolean damaged) {}

  /**
   * What earlier processes have left.
   *
   * @param runs in the order in which they were accepted
   * @param unreadable folders of runs of which too little is left to go on with them
   */
  record Loaded(List<Stored> runs, List<RunFolder> unreadable) {}

  private final Path folder;
  private final DurableFiles disk;
  private final String boot = KernelFiles.bootId();

  RunStore(Path folder, DurableFiles disk) {
    this.folder = folder.toAbsolutePath();
    this.disk = disk;
    try {
      StateFolder.create(this.folder);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  RunFolder folderOf(String id) {
    return new RunFolder(folder.resolve(id));
  }

  /** Notes a new run. When this returns it is on disk, with its content. */
  void add(RunRecord record, RunRequest request) {
    RunFolder run = folderOf(record.id());
    try {
      run.create();
      // The state comes last: without it there is no run.
      Map<Path, DurableFiles.Content> files = new LinkedHashMap<>();
      files.put(run.content(), request.content());
      files.put(run.request(), request.summary()::writeTo);
      byte[] state = DurableFiles.withRoomToGrow(content(record));
      files.put(run.state(), out -> out.write(state));
      disk.writeAll(files, folder);
    } catch (IOException | RuntimeException e) {
      run.delete();
      throw e instanceof IOException io ? unwritable(io) : (RuntimeException) e;
    }
  }

  /**
   * Notes what has become of a run. When this returns it is on disk.
   *
   * @param flushed what must be on disk before it is
   */
  void save(RunRecord record, Path... flushed) {
    try {
      disk.replace(folderOf(record.id()).state(), content(record), flushed);
    } catch (IOException e) {
      throw unwritable(e);
    }
  }

  /** How much there is to read for {@link #whole}. */
  long contentBytes(RunFolder run) {
    try {
      return Files.size(run.content());
    } catch (IOException e) {
      return 0;
    }
  }

  /**
   * All of a request.
   *
   * @throws BerthException CONFLICT if it is damaged or gone, UNAVAILABLE if it cannot be read now
   */
  RequestedRun whole(RunFolder run) {
    try {
      return RunMessages.spec(message(run.content()));
    } catch (IOException e) {
      log.error("its request cannot be read: {}", e.toString());
      boolean forGood = isDamage(e);
      throw new BerthException(
          forGood ? Reason.CONFLICT : Reason.UNAVAILABLE,
          "its code cannot be read" + (forGood ? " any more: " : ": ") + e.getMessage(),
          e);
    }
  }

  private byte[] content(RunRecord record) {
    Properties properties = new Properties();
    properties.setProperty("boot", boot);
    properties.setProperty("id", record.id());
    properties.setProperty("request-id", record.requestId());
    properties.setProperty("number", Long.toString(record.number()));
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
    record.keptBytes().ifPresent(bytes -> properties.setProperty("kept-bytes", "" + bytes));
    return RecordFile.content(properties);
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

  /** What earlier processes have left. What was never accepted is deleted. */
  Loaded load() {
    // Thousands of small files: the disk may have several at once on their way. Not as many as the
    // machine has cores: some of the files may be large.
    ExecutorService readers = Executors.newFixedThreadPool(READERS);
    try {
      return load(readers);
    } finally {
      readers.shutdownNow();
    }
  }

  /** The same, in threads of the caller's choice. */
  Loaded load(Executor readers) {
    List<Stored> runs = new ArrayList<>();
    List<RunFolder> unreadable = new ArrayList<>();
    List<RunFolder> folders;
    try (Stream<Path> all = Files.list(folder)) {
      folders =
          all.filter(path -> NAME.matcher(path.getFileName().toString()).matches())
              .map(RunFolder::new)
              .toList();
    } catch (IOException e) {
      throw unwritable(e);
    }
    folders.stream()
        .map(run -> CompletableFuture.runAsync(() -> read(run, runs, unreadable), readers))
        .toList()
        .forEach(CompletableFuture::join);
    runs.sort(
        Comparator.comparingLong((Stored stored) -> stored.record.number())
            .thenComparing(stored -> stored.record.accepted()));
    return new Loaded(runs, unreadable);
  }

  private void read(RunFolder run, List<Stored> runs, List<RunFolder> unreadable) {
    Optional<Stored> stored;
    try {
      stored = read(run);
    } catch (IOException e) {
      // It may go on; to take it for damaged would be to end it.
      log.error("{} is ignored until the next start: {}", run.path(), e.toString());
      return;
    }
    synchronized (runs) {
      if (stored.isPresent()) {
        runs.add(stored.get());
      } else if (run.exists()) {
        unreadable.add(run);
      }
    }
  }

  /**
   * Empty for one that was never accepted, or of which too little is left.
   *
   * @throws IOException if the disk does not say what there is
   */
  private Optional<Stored> read(RunFolder run) throws IOException {
    Optional<RunRecord> record = Optional.empty();
    boolean sameBoot = true;
    try {
      Properties properties = RecordFile.readProperties(run.state());
      record = Optional.of(record(run, properties));
      sameBoot = boot.equals(properties.getProperty("boot"));
    } catch (NoSuchFileException e) {
      // Killed before it was accepted, or while it was deleted.
      run.delete();
      return Optional.empty();
    } catch (DamagedFileException | RuntimeException e) {
      log.error("{} cannot be read: {}", run.state(), e.toString());
    }
    if (record.isPresent() && record.get().phase() == Phase.CLEANED) {
      return Optional.of(new Stored(run, record.get(), Optional.empty(), sameBoot, false));
    }
    Optional<RequestedRun> spec = readRequest(run);
    if (spec.isEmpty()) {
      return Optional.empty();
    }
    boolean damaged = record.isEmpty();
    if (damaged) {
      // It stays until another takes its place: a folder without one was never accepted.
      copyAside(run.state());
    }
    RunRecord known = record.orElseGet(() -> unknown(run, spec.get().requestId()));
    try {
      run.deleteUnfinished();
    } catch (IOException e) {
      log.warn("cannot clean up {}: {}", run.path(), e.toString());
    }
    return Optional.of(new Stored(run, known, spec, sameBoot, damaged));
  }

  /** What lists show of a run that is over; hardly anything if that is damaged. */
  RequestedRun shown(RunFolder run) {
    Optional<RequestedRun> spec = Optional.empty();
    try {
      spec = readRequest(run);
    } catch (IOException e) {
      log.error("{} cannot be read: {}", run.request(), e.toString());
    }
    return spec.orElseGet(
        () -> RunMessages.spec(RunCodeRequest.newBuilder().setName("(request damaged)").build()));
  }

  // What lists show is in the content too, only longer.
  private Optional<RequestedRun> readRequest(RunFolder run) throws IOException {
    try {
      return Optional.of(RunMessages.spec(message(run.request())));
    } catch (IOException | RuntimeException e) {
      throwUnlessDamaged(e);
      log.error("{} cannot be read: {}", run.request(), e.toString());
    }
    // One at a time: these are large.
    synchronized (this) {
      return readContent(run);
    }
  }

  private Optional<RequestedRun> readContent(RunFolder run) throws IOException {
    try {
      RunCodeRequest summary = RunMessages.summary(message(run.content()));
      setAside(run.request());
      disk.write(run.request(), summary.toByteArray());
      return Optional.of(RunMessages.spec(summary));
    } catch (IOException | RuntimeException e) {
      throwUnlessDamaged(e);
      if (Files.exists(run.content())) {
        log.error("{} cannot be read either: {}", run.content(), e.toString());
      }
      return Optional.empty();
    }
  }

  private static boolean isDamage(Exception e) {
    return !(e instanceof IOException)
        || e instanceof DamagedFileException
        || e instanceof InvalidProtocolBufferException
        || e instanceof NoSuchFileException;
  }

  // A disk that does not answer, or too many open files: the next start may find all of it.
  private static void throwUnlessDamaged(Exception e) throws IOException {
    if (e instanceof IOException io && !isDamage(e)) {
      throw io;
    }
  }

  private static RunCodeRequest message(Path file) throws IOException {
    return REQUESTS.parseFrom(RecordFile.read(file));
  }

  // Nobody knows how far it was, so it counts as one that may have been started.
  private static RunRecord unknown(RunFolder run, String requestId) {
    Instant accepted;
    try {
      accepted = Files.getLastModifiedTime(run.content()).toInstant();
    } catch (IOException e) {
      accepted = Instant.now();
    }
    return RunRecord.accepted(
        run.path().getFileName().toString(), requestId, Long.MAX_VALUE, accepted, Phase.LAUNCHING);
  }

  private static void copyAside(Path damaged) {
    try {
      log.error("{} is kept as {}", damaged, StateFolder.copyAside(damaged));
    } catch (IOException e) {
      log.error("{} cannot be copied: {}", damaged, e.toString());
    }
  }

  /** Renames what cannot be read, so that a person can look at it. */
  static void setAside(Path damaged) {
    try {
      log.error("{} is set aside as {}", damaged, StateFolder.setAside(damaged));
    } catch (IOException e) {
      log.error("{} cannot be set aside: {}", damaged, e.toString());
    }
  }

  private static RunRecord record(RunFolder run, Properties properties) {
    String id = text(properties, "id");
    if (!id.equals(run.path().getFileName().toString())) {
      // What is saved of it would replace what is known of another.
      throw new IllegalArgumentException("it is the record of " + id);
    }
    return new RunRecord(
        id,
        text(properties, "request-id"),
        Long.parseLong(properties.getProperty("number")),
        Instant.parse(properties.getProperty("accepted")),
        Phase.valueOf(properties.getProperty("phase")),
        Optional.ofNullable(properties.getProperty("started.at")).map(at -> started(properties)),
        Optional.ofNullable(properties.getProperty("stop.reason"))
            .map(reason -> new Stop(ExitReason.valueOf(reason), text(properties, "stop.message"))),
        Optional.ofNullable(properties.getProperty("ended.at")).map(at -> ended(properties)),
        Stream.ofNullable(properties.getProperty("kept-bytes"))
            .mapToLong(Long::parseLong)
            .findAny());
  }

  private static String text(Properties properties, String key) {
    String text = properties.getProperty(key);
    if (text == null) {
      throw new IllegalArgumentException("it does not say " + key);
    }
    return text;
  }

  private static Started started(Properties properties) {
    String pid = properties.getProperty("started.pid");
    String notEnforced = text(properties, "started.not-enforced");
    return new Started(
        text(properties, "started.container"),
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
        text(properties, "ended.message"),
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
