package berth.server.cluster;

import berth.host.state.DamagedFileException;
import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.WorkFiles;
import berth.supervision.SealedMessage;
import berth.supervision.SupervisionFolder;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.Parser;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder of one cluster: what this process and the cluster's supervisor have in common. Who
 * writes a file replaces it as a whole. The supervisor is another user, who can enter two folders
 * of it, and write one.
 *
 * <table>
 *   <caption>Its files</caption>
 *   <tr><td>{@code submitted}</td><td>what was asked for, as a {@code ClusterStatus}. Written last:
 *       without it there is no such cluster</td></tr>
 *   <tr><td>{@code request}</td><td>the id with which it was asked for, if that has one</td></tr>
 *   <tr><td>{@code supervisor}</td><td>a {@link SupervisorRecord}</td></tr>
 *   <tr><td>{@code cancel}</td><td>a {@code CancelClusterRequest}, if somebody wants it to end</td>
 *       </tr>
 *   <tr><td>{@code end}</td><td>how it ended, as a {@code ClusterStatus}, if no supervisor could be
 *       started that would have said so</td></tr>
 *   <tr><td>{@code log}</td><td>what supervisors print; {@code log.1} what is older</td></tr>
 *   <tr><td>{@code root}</td><td>where {@link SupervisorSandbox} puts what a supervisor sees; empty
 *       for everybody else</td></tr>
 *   <tr><td>{@code input}, {@code state}</td><td>what the supervisor sees, see {@link
 *       SupervisionFolder}; of {@code submitted} and {@code cancel} it has copies</td></tr>
 * </table>
 */
record ClusterFolder(Path path, DurableFiles files) {
  private static final Logger log = LoggerFactory.getLogger(ClusterFolder.class);
  private static final long LARGEST_LOG = 1 << 20;
  private static final int LONGEST_LINE = 500;
  private static final long LEAST_ROOM = 64 << 10;

  /** What tells one state of a file from another without reading it. */
  record Stamp(Object file, FileTime modified, long size) {}

  String id() {
    return path.getFileName().toString();
  }

  SupervisionFolder shared() {
    return new SupervisionFolder(path);
  }

  Path log() {
    return path.resolve("log");
  }

  Path mountPoint() {
    return path.resolve("root");
  }

  Path state() {
    return shared().state();
  }

  /**
   * Makes it.
   *
   * @param supervisor the user that supervises the cluster; empty: that of this process
   */
  void create(OptionalInt supervisor) {
    try {
      StateFolder.create(path);
      StateFolder.create(mountPoint());
      StateFolder.create(shared().input());
      Files.setPosixFilePermissions(shared().input(), PosixFilePermissions.fromString("rwxr-xr-x"));
      StateFolder.create(state());
      if (supervisor.isPresent()) {
        PackageTree.give(state(), supervisor.getAsInt());
      }
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /**
   * Checks what was unpacked, lets the supervisor read it, and makes sure that it outlives a power
   * failure.
   *
   * @throws BerthException INVALID if it is no package
   */
  void keepPackage(OptionalInt supervisor) {
    try {
      PackageTree.keep(shared().packageFolder(), supervisor);
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Notes that there is a cluster. When this returns, it is known whatever happens. */
  void submit(ClusterStatus submitted, String requestId, SupervisorRecord supervisor) {
    try {
      files.write(
          Map.of(
              path.resolve("request"),
              requestId.getBytes(StandardCharsets.UTF_8),
              path.resolve("supervisor"),
              supervisor.bytes()));
      hand(shared().submitted(), submitted);
      files.write(Map.of(path.resolve("submitted"), submitted.toByteArray()), path.getParent());
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** What was asked for; empty if this never became a cluster, or is none any more. */
  Optional<ClusterStatus> submitted() throws IOException {
    return message("submitted", shared().submitted(), ClusterStatus.parser());
  }

  /** Whether something in it was set aside, so that it must not be deleted without a word. */
  boolean isDamaged() throws IOException {
    try (DirectoryStream<Path> all = Files.newDirectoryStream(path)) {
      for (Path file : all) {
        if (StateFolder.isSetAside(file)) {
          return true;
        }
      }
      return false;
    }
  }

  String requestId() throws IOException {
    return record("request").map(bytes -> new String(bytes, StandardCharsets.UTF_8)).orElse("");
  }

  SupervisorRecord supervisor() throws IOException {
    Path file = path.resolve("supervisor");
    try {
      Properties properties = RecordFile.readProperties(file);
      return SupervisorRecord.read(properties);
    } catch (NoSuchFileException e) {
      return SupervisorRecord.none(List.of());
    } catch (DamagedFileException e) {
      setAside(file, e);
      return SupervisorRecord.none(List.of());
    }
  }

  void write(SupervisorRecord supervisor) {
    write("supervisor", supervisor.bytes());
  }

  Optional<CancelClusterRequest> cancel() {
    try {
      return message("cancel", shared().cancel(), CancelClusterRequest.parser());
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  void write(CancelClusterRequest cancel) {
    write("cancel", cancel.toByteArray());
    try {
      hand(shared().cancel(), cancel);
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Sees to it that the next supervisor finds what it needs. */
  void prepare() throws IOException {
    Optional<ClusterStatus> submitted = submitted();
    if (submitted.isPresent()) {
      hand(shared().submitted(), submitted.get());
    }
    Optional<CancelClusterRequest> cancel =
        message("cancel", shared().cancel(), CancelClusterRequest.parser());
    if (cancel.isPresent()) {
      hand(shared().cancel(), cancel.get());
    }
    trimLog();
    if (!Files.exists(log(), LinkOption.NOFOLLOW_LINKS)) {
      Files.createFile(
          log(),
          PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    }
  }

  /**
   * What has become of it; empty if nobody has said anything yet.
   *
   * @throws IOException if that is damaged, or not to be believed
   */
  Optional<ClusterStatus> status() throws IOException {
    Optional<byte[]> end = record("end");
    return end.isPresent()
        ? Optional.of(ClusterStatus.parseFrom(end.get()))
        : SupervisorStatus.read(shared().status());
  }

  /** Whether its disk has no room for another status. */
  boolean full() {
    return path.toFile().getUsableSpace() < LEAST_ROOM;
  }

  /** Changes whenever {@link #status} may have changed. */
  Optional<Stamp> stampOfStatus() {
    try {
      Optional<Stamp> end = stamp(path.resolve("end"));
      return end.isPresent() ? end : stamp(shared().status());
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private static Optional<Stamp> stamp(Path file) throws IOException {
    try {
      BasicFileAttributes found =
          Files.readAttributes(file, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
      return Optional.of(new Stamp(found.fileKey(), found.lastModifiedTime(), found.size()));
    } catch (NoSuchFileException e) {
      return Optional.empty();
    }
  }

  /** Only for clusters that no supervisor can be started for. */
  void write(ClusterStatus end) {
    write("end", end.toByteArray());
  }

  /** Keeps the log small, whether or not a supervisor writes it: that appends what it writes. */
  void trimLog() {
    try {
      if (Files.exists(log()) && Files.size(log()) > LARGEST_LOG) {
        // All of it may be much: a supervisor that prints without end has minutes for it.
        copyEnd(log(), path.resolve("log.1"));
        try (FileChannel file = FileChannel.open(log(), StandardOpenOption.WRITE)) {
          file.truncate(0);
        }
      }
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private static void copyEnd(Path from, Path to) throws IOException {
    Files.deleteIfExists(to);
    Files.createFile(
        to, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    try (FileChannel in = FileChannel.open(from, StandardOpenOption.READ);
        FileChannel out = FileChannel.open(to, StandardOpenOption.WRITE)) {
      in.transferTo(Math.max(0, in.size() - 2 * LARGEST_LOG), 2 * LARGEST_LOG, out);
    }
  }

  /** The last thing that a supervisor has printed; empty if it was silent. */
  Optional<String> lastLineOfLog() {
    try (FileChannel file = FileChannel.open(log(), StandardOpenOption.READ)) {
      file.position(Math.max(0, file.size() - 8 * LONGEST_LINE));
      ByteBuffer end = ByteBuffer.allocate(8 * LONGEST_LINE);
      while (end.hasRemaining() && file.read(end) >= 0) {}
      return StandardCharsets.UTF_8
          .decode(end.flip())
          .toString()
          .lines()
          .map(String::strip)
          .filter(line -> !line.isEmpty())
          .reduce((before, last) -> last)
          .map(line -> line.substring(0, Math.min(line.length(), LONGEST_LINE)))
          .map(SupervisorStatus::clean);
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  /**
   * Deletes everything. What is left if this process is killed meanwhile is no cluster any more.
   */
  void delete() {
    try {
      if (Files.deleteIfExists(path.resolve("submitted"))) {
        files.flush(path);
      }
      WorkFiles.delete(path);
    } catch (IOException e) {
      // The next start of the daemon tries again.
      log.warn("cannot delete {}: {}", path, e.toString());
    }
  }

  /** Deletes what a killed process has not come to finish. */
  void tidy() throws IOException {
    try (DirectoryStream<Path> all = Files.newDirectoryStream(path)) {
      for (Path file : all) {
        if (DurableFiles.isUnfinished(file)) {
          Files.delete(file);
        }
      }
    }
  }

  // A copy for the supervisor: it cannot be damaged unnoticed, and is written anew before each
  // start.
  private void hand(Path copy, Message message) throws IOException {
    Path begun = SupervisionFolder.unfinished(copy);
    Files.write(begun, SealedMessage.seal(message));
    Files.setPosixFilePermissions(begun, PosixFilePermissions.fromString("rw-r--r--"));
    Files.move(begun, copy, StandardCopyOption.ATOMIC_MOVE);
  }

  /**
   * The record of this name. One that is damaged is replaced by the supervisor's copy, if whole.
   */
  private <T extends Message> Optional<T> message(String name, Path handed, Parser<T> parser)
      throws IOException {
    Path file = path.resolve(name);
    try {
      return Optional.of(parser.parseFrom(RecordFile.read(file)));
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (DamagedFileException | InvalidProtocolBufferException e) {
      setAside(file, e);
    }
    try {
      T copy = SealedMessage.open(Files.readAllBytes(handed), parser);
      files.write(file, copy.toByteArray());
      log.warn("{} is restored from {}", file, handed);
      return Optional.of(copy);
    } catch (NoSuchFileException | InvalidProtocolBufferException e) {
      return Optional.empty();
    }
  }

  private Optional<byte[]> record(String name) throws IOException {
    Path file = path.resolve(name);
    try {
      return Optional.of(RecordFile.read(file));
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (DamagedFileException e) {
      setAside(file, e);
      return Optional.empty();
    }
  }

  private static void setAside(Path file, IOException e) throws IOException {
    log.error("{} cannot be used, and is now {}: {}", file, StateFolder.setAside(file), e + "");
  }

  private void write(String name, byte[] content) {
    try {
      files.write(path.resolve(name), content);
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private BerthException unusable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the folder of a cluster " + path + ": " + e, e);
  }
}
