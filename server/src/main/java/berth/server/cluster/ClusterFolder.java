package berth.server.cluster;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.WorkFiles;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterStatus;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
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
import java.util.Optional;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder of one cluster: what this process and the cluster's supervisor have in common. Who
 * writes a file replaces it as a whole.
 *
 * <table>
 *   <caption>Its files</caption>
 *   <tr><td>{@code submitted}</td><td>what was asked for, as a {@code ClusterStatus}. Written last:
 *       without it there is no such cluster</td></tr>
 *   <tr><td>{@code request}</td><td>the id with which it was asked for, if that has one</td></tr>
 *   <tr><td>{@code package}</td><td>the files of the cluster, unpacked</td></tr>
 *   <tr><td>{@code supervisor}</td><td>a {@link SupervisorRecord}</td></tr>
 *   <tr><td>{@code cancel}</td><td>a {@code CancelClusterRequest}, if somebody wants it to end</td>
 *       </tr>
 *   <tr><td>{@code status}</td><td>what has become of it, as a {@code ClusterStatus}. The
 *       supervisor's own, unless that can never be started</td></tr>
 *   <tr><td>{@code lock}</td><td>the supervisor's own</td></tr>
 *   <tr><td>{@code log}</td><td>what supervisors print; {@code log.1} what is older</td></tr>
 * </table>
 */
record ClusterFolder(Path path) {
  private static final Logger log = LoggerFactory.getLogger(ClusterFolder.class);
  private static final long LARGEST_LOG = 1 << 20;
  private static final int LONGEST_LINE = 500;
  private static final long LEAST_ROOM = 64 << 10;

  /** What tells one state of a file from another without reading it. */
  record Stamp(Object file, FileTime modified, long size) {}

  String id() {
    return path.getFileName().toString();
  }

  Path unpacked() {
    return path.resolve("package");
  }

  Path log() {
    return path.resolve("log");
  }

  private Path submittedFile() {
    return path.resolve("submitted");
  }

  private Path statusFile() {
    return path.resolve("status");
  }

  void create() {
    try {
      Files.createDirectory(
          path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Makes sure that what was unpacked outlives a power failure. */
  void syncUnpacked() {
    try (Stream<Path> all = Files.walk(unpacked())) {
      for (Path file : (Iterable<Path>) all::iterator) {
        if (Files.isRegularFile(file, LinkOption.NOFOLLOW_LINKS)
            || Files.isDirectory(file, LinkOption.NOFOLLOW_LINKS)) {
          force(file);
        }
      }
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Notes that there is a cluster. When this returns, it is known whatever happens. */
  void submit(ClusterStatus submitted, String requestId, SupervisorRecord supervisor) {
    if (!requestId.isEmpty()) {
      write("request", requestId.getBytes(StandardCharsets.UTF_8));
    }
    write(supervisor);
    write("submitted", submitted.toByteArray());
    try {
      force(path.getParent());
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** What was asked for; empty if this never became a cluster, or is none any more. */
  Optional<ClusterStatus> submitted() throws IOException {
    Optional<byte[]> bytes = read("submitted");
    return bytes.isEmpty() ? Optional.empty() : Optional.of(ClusterStatus.parseFrom(bytes.get()));
  }

  String requestId() throws IOException {
    return read("request").map(bytes -> new String(bytes, StandardCharsets.UTF_8)).orElse("");
  }

  SupervisorRecord supervisor() throws IOException {
    Optional<byte[]> bytes = read("supervisor");
    return bytes.isEmpty() ? SupervisorRecord.none(List.of()) : SupervisorRecord.read(bytes.get());
  }

  void write(SupervisorRecord supervisor) {
    write("supervisor", supervisor.bytes());
  }

  Optional<CancelClusterRequest> cancel() {
    try {
      Optional<byte[]> bytes = read("cancel");
      return bytes.isEmpty()
          ? Optional.empty()
          : Optional.of(CancelClusterRequest.parseFrom(bytes.get()));
    } catch (InvalidProtocolBufferException e) {
      log.warn("{} is damaged and replaced", path.resolve("cancel"));
      return Optional.empty();
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  void write(CancelClusterRequest cancel) {
    write("cancel", cancel.toByteArray());
  }

  /** What the supervisor says; empty if it has not said anything yet. */
  Optional<ClusterStatus> status() {
    try {
      Optional<byte[]> bytes = read("status");
      return bytes.isEmpty() ? Optional.empty() : Optional.of(ClusterStatus.parseFrom(bytes.get()));
    } catch (InvalidProtocolBufferException e) {
      log.warn("{} is damaged and ignored", statusFile());
      return Optional.empty();
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Whether its disk has no room for another status. */
  boolean full() {
    return path.toFile().getUsableSpace() < LEAST_ROOM;
  }

  /** Changes whenever {@link #status} may have changed. */
  Optional<Stamp> stampOfStatus() {
    try {
      BasicFileAttributes found = Files.readAttributes(statusFile(), BasicFileAttributes.class);
      return Optional.of(new Stamp(found.fileKey(), found.lastModifiedTime(), found.size()));
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  /** Only for clusters that no supervisor can be started for. */
  void write(ClusterStatus status) {
    write("status", status.toByteArray());
  }

  /** Keeps the log small, whether or not a supervisor writes it: that appends what it writes. */
  void trimLog() {
    try {
      if (Files.exists(log()) && Files.size(log()) > LARGEST_LOG) {
        Files.copy(log(), path.resolve("log.1"), StandardCopyOption.REPLACE_EXISTING);
        try (FileChannel file = FileChannel.open(log(), StandardOpenOption.WRITE)) {
          file.truncate(0);
        }
      }
    } catch (IOException e) {
      throw unusable(e);
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
          .map(line -> line.substring(0, Math.min(line.length(), LONGEST_LINE)));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  /**
   * Deletes everything. What is left if this process is killed meanwhile is no cluster any more.
   */
  void delete() {
    try {
      if (Files.deleteIfExists(submittedFile())) {
        force(path);
      }
      WorkFiles.delete(path);
    } catch (IOException e) {
      // The next start of the daemon tries again.
      log.warn("cannot delete {}: {}", path, e.toString());
    }
  }

  private Optional<byte[]> read(String name) throws IOException {
    try {
      return Optional.of(Files.readAllBytes(path.resolve(name)));
    } catch (NoSuchFileException e) {
      return Optional.empty();
    }
  }

  private void write(String name, byte[] content) {
    Path temporary = path.resolve(name + ".new");
    try {
      Files.write(temporary, content);
      force(temporary);
      Files.move(temporary, path.resolve(name), StandardCopyOption.ATOMIC_MOVE);
      force(path);
    } catch (IOException e) {
      throw unusable(e);
    }
  }

  private static void force(Path path) throws IOException {
    try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  private BerthException unusable(IOException e) {
    return new BerthException(
        Reason.UNAVAILABLE, "cannot use the folder of a cluster " + path + ": " + e, e);
  }
}
