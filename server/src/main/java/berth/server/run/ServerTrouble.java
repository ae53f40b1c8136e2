package berth.server.run;

import berth.rpc.Backoff;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.text.FileFailure;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.NotDirectoryException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * What keeps a server from doing a step of a run, and is no fault of the run: an engine that is
 * away, a disk that takes nothing, no thread. Says when to try again, and when to give up. For one
 * thread.
 */
final class ServerTrouble {
  /** Whatever lasts longer may be the run's own fault after all, and others want its GPUs. */
  static final Duration LONGEST = Duration.ofHours(1);

  private static final Duration SHORTEST = Duration.ofMinutes(1);
  private static final Duration FIRST_PAUSE = Duration.ofSeconds(1);
  private static final Duration LONGEST_PAUSE = Duration.ofSeconds(30);

  private static final Set<String> NAMES =
      Set.of("File name too long", "Not a directory", "Is a directory");

  private final Duration atMost;
  private final BooleanSupplier down;
  private final LongSupplier nanos;
  private Optional<Long> since = Optional.empty();
  private final Backoff pauses = new Backoff(FIRST_PAUSE, LONGEST_PAUSE);

  /**
   * @param waitAtMost what the run is ready to wait for its GPUs; empty: for ever
   * @param down whether nothing can be run here at present: then it is not this run's fault,
   *     however long it lasts
   */
  ServerTrouble(Optional<Duration> waitAtMost, BooleanSupplier down, LongSupplier nanos) {
    Duration wanted = waitAtMost.orElse(LONGEST);
    this.atMost =
        wanted.compareTo(LONGEST) > 0
            ? LONGEST
            : wanted.compareTo(SHORTEST) < 0 ? SHORTEST : wanted;
    this.down = down;
    this.nanos = nanos;
  }

  /** What a failure says of the server; empty if it says something of the run. */
  static Optional<BerthException> of(Throwable failure) {
    if (isAboutNames(failure)) {
      return Optional.empty();
    }
    if (failure instanceof BerthException e && e.reason() == Reason.UNAVAILABLE) {
      return Optional.of(e);
    }
    if (failure instanceof UncheckedIOException e) {
      return Optional.of(
          new BerthException(
              Reason.UNAVAILABLE,
              "the server cannot prepare it: " + FileFailure.words(e.getCause()),
              e));
    }
    if (failure instanceof OutOfMemoryError e) {
      return Optional.of(
          new BerthException(
              Reason.UNAVAILABLE, "the server is out of memory or threads: " + e.getMessage(), e));
    }
    return Optional.empty();
  }

  // Files that cannot be beside each other, or nowhere, never will be.
  private static boolean isAboutNames(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof FileAlreadyExistsException
          || cause instanceof DirectoryNotEmptyException
          || cause instanceof NotDirectoryException
          || (cause instanceof FileSystemException e
              && e.getReason() != null
              && NAMES.contains(e.getReason()))) {
        return true;
      }
    }
    return false;
  }

  /**
   * Notes a failure; says whether it is to be waited for no longer.
   *
   * @param fetching whether an image could not be fetched: its registry may be away, or may not
   *     exist, which looks the same
   */
  boolean lastsTooLong(boolean fetching) {
    long now = nanos.getAsLong();
    if (since.isEmpty() || down.getAsBoolean()) {
      since = Optional.of(now);
    }
    return now - since.get() >= (fetching ? SHORTEST : atMost).toNanos();
  }

  /** The pause before the next try: longer each time. */
  Duration pause() {
    return pauses.next();
  }
}
