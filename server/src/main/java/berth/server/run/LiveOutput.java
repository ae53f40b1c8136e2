package berth.server.run;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.LongConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The output of a run while it is not over, from the pipes of its program to its spool. The run's
 * thread opens and completes it; any may read. Its lock is taken last but for those of the spool.
 */
final class LiveOutput {
  private static final Logger log = LoggerFactory.getLogger(LiveOutput.class);
  private static final Duration USUAL = Duration.ofMillis(500);
  private static final Duration LAST = Duration.ofSeconds(10);

  private final RunContext context;
  private final String runId;
  private final RunFolder folder;
  private final LongConsumer grown;
  private Optional<Spool> spool = Optional.empty();
  private long counted;

  /**
   * What is kept.
   *
   * @param files in which it is
   */
  record Kept(long bytes, Path... files) {}

  /**
   * @param grown told without the lock how much there is when there is more
   */
  LiveOutput(RunContext context, String runId, RunFolder folder, LongConsumer grown) {
    this.context = context;
    this.runId = runId;
    this.folder = folder;
    this.grown = grown;
  }

  synchronized Optional<Spool> spool() {
    return spool;
  }

  synchronized boolean isOpen() {
    return spool.isPresent();
  }

  void open() {
    Spool opened = new Spool(folder, context.spoolWatch());
    synchronized (this) {
      spool.ifPresent(Spool::close);
      spool = Optional.of(opened);
      counted = opened.total();
    }
    opened.listen(() -> grown.accept(count()));
    opened.follow();
  }

  /** Starts the readers of the pipes. */
  void start() {
    spool().orElseThrow().start(context.outputLimit());
  }

  /** How much there is; adds what is new to the metrics. */
  synchronized long count() {
    long total = spool.map(Spool::total).orElse(counted);
    context.metrics().printed(total - counted);
    counted = total;
    return total;
  }

  /**
   * Waits until all of it is there, if the program has ended; not for those that outlive it.
   *
   * @param launched whether there may have been a program
   */
  Kept complete(boolean launched) throws InterruptedException {
    if (isOpen()) {
      Spool all = spool().get();
      if (!folder.started()) {
        all.abandon();
      }
      if (launched && !all.awaitComplete(USUAL)) {
        // It may have been killed before it opened its pipes. Those who have them open keep them.
        all.abandon();
      }
      if (launched && !all.awaitComplete(LAST)) {
        log.warn("{}: a process still holds its output open; further output is dropped", runId);
      }
      return new Kept(all.total(), all.written());
    }
    if (Files.exists(folder.io()) && !folder.started()) {
      // An earlier daemon may have started the readers of its pipes.
      try (Spool left = new Spool(folder, context.spoolWatch())) {
        left.abandon();
      }
    }
    return new Kept(0);
  }

  synchronized void close() {
    spool.ifPresent(Spool::close);
  }

  /** Readers open what is kept themselves from now on. */
  synchronized void release() {
    close();
    spool = Optional.empty();
  }
}
