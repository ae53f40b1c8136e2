package berth.supervision;

import java.nio.file.Path;

/**
 * The part of a detached cluster's folder that {@code berthd} and the cluster's supervisor share.
 * {@code berthd} writes {@link #input} and the supervisor {@link #state}, each replaces a file as a
 * whole, and messages are in {@link SealedMessage} form. What else is in the folder is {@code
 * berthd}'s own.
 *
 * @param path the folder
 */
public record SupervisionFolder(Path path) {
  /** The file of a {@link #packageFolder package} that says what the cluster is, as JSON. */
  public static final String DESCRIPTION = "cluster.json";

  /** The name of {@link #temporary} below {@link #state}, in which a supervisor is started. */
  public static final String TEMPORARY = "tmp";

  /** What the supervisor reads. It can enter this folder, and write nothing there. */
  public Path input() {
    return path.resolve("input");
  }

  /** The cluster as it was handed over, a {@code ClusterStatus}. */
  public Path submitted() {
    return input().resolve("submitted");
  }

  /** The files of the cluster, as they were packed where it was submitted. */
  public Path packageFolder() {
    return input().resolve("package");
  }

  /** What the cluster is; see {@link #DESCRIPTION}. */
  public Path description() {
    return packageFolder().resolve(DESCRIPTION);
  }

  /** A {@code CancelClusterRequest}, once somebody wants the cluster to end. */
  public Path cancel() {
    return input().resolve("cancel");
  }

  /** What the supervisor writes: it owns this folder. */
  public Path state() {
    return path.resolve("state");
  }

  /** What has become of the cluster, its newest {@code ClusterStatus}. */
  public Path status() {
    return state().resolve("status");
  }

  /** The files of the tasks, which are packed in the package. */
  public Path unpackedFiles() {
    return state().resolve("unpacked");
  }

  /** Temporary files, if the supervisor was started so. */
  public Path temporary() {
    return state().resolve(TEMPORARY);
  }

  /** Locked while somebody supervises the cluster. */
  public Path lock() {
    return state().resolve("lock");
  }

  /** Where {@code file} is written before it gets its name. */
  public static Path unfinished(Path file) {
    return file.resolveSibling(file.getFileName() + ".new");
  }
}
