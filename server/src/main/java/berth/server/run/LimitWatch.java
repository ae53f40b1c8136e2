package berth.server.run;

import berth.rpc.ByteSize;
import berth.server.reservation.RunHold;
import berth.server.run.RunRecord.ExitReason;
import berth.server.run.RunRecord.Started;
import berth.server.run.RunRecord.Stop;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Consumer;

/**
 * Watches what a program may take while it runs: time, disk, and GPUs that it does not use; and
 * notes how much memory it uses, whose limit the runtime enforces. Any thread may call. Its lock
 * guards a number; nothing is called with it.
 */
final class LimitWatch {
  private static final Duration MEMORY_INTERVAL = Duration.ofSeconds(2);
  private static final Duration DISK_INTERVAL = Duration.ofSeconds(10);

  private final RunContext context;
  private final String runId;
  private final RunFolder folder;
  private final RunTasks tasks;
  private final Consumer<Stop> exceeded;
  private OptionalLong peakMemory = OptionalLong.empty();

  /**
   * @param exceeded told of each limit that is exceeded, without the lock; may block
   */
  LimitWatch(
      RunContext context, String runId, RunFolder folder, RunTasks tasks, Consumer<Stop> exceeded) {
    this.context = context;
    this.runId = runId;
    this.folder = folder;
    this.tasks = tasks;
    this.exceeded = exceeded;
  }

  /** The most memory that was seen to be used. */
  synchronized OptionalLong peakMemory() {
    return peakMemory;
  }

  /**
   * Watches the time since its start, also if that was in an earlier daemon, until the timers are
   * cancelled.
   *
   * @param signal sends the signal that was asked for as a warning
   */
  void watchTime(Started started, Optional<Limits.Warning> warning, Consumer<String> signal) {
    if (started.timeLimit().isEmpty()) {
      return;
    }
    Duration limit = started.timeLimit().get();
    Duration left = limit.plusNanos(started.nanos() - System.nanoTime());
    Stop order =
        new Stop(
            ExitReason.TIME_LIMIT, "time limit of " + limit.toMillis() / 1000.0 + " s exceeded");
    tasks.after(left, () -> exceeded.accept(order));
    warning
        .filter(before -> left.compareTo(before.before()) > 0)
        .ifPresent(
            before ->
                tasks.after(left.minus(before.before()), () -> signal.accept(before.signal())));
  }

  /** Watches memory, disk and GPUs until the result is run. */
  Runnable watchUse(Optional<Limits.Idle> idle, Optional<RunHold> hold) {
    Runnable memory = tasks.repeat(MEMORY_INTERVAL, this::notePeak);
    Runnable disk = watchDisk();
    Runnable gpus = watchIdleness(idle, hold);
    return () -> {
      gpus.run();
      disk.run();
      memory.run();
    };
  }

  private void notePeak() {
    OptionalLong now = context.runtime().peakMemory(runId);
    synchronized (this) {
      if (now.isPresent() && now.getAsLong() > peakMemory.orElse(0)) {
        peakMemory = now;
      }
    }
  }

  private Runnable watchDisk() {
    if (context.workLimit().isEmpty()) {
      return () -> {};
    }
    long limit = context.workLimit().get();
    return tasks.repeat(
        DISK_INTERVAL,
        () -> {
          RunEngine.DiskShare share = context.runtime().diskShare(runId);
          long used = DiskUse.below(folder.work()).orElse(0) + share.unlinkedBytes();
          for (Path path : share.folders()) {
            used += DiskUse.below(path).orElse(0);
          }
          if (used > limit) {
            exceeded.accept(
                new Stop(
                    ExitReason.DISK_LIMIT,
                    "disk limit exceeded: "
                        + ByteSize.text(used)
                        + " written, "
                        + ByteSize.text(limit)
                        + " allowed (--work-limit)"));
          }
        });
  }

  private Runnable watchIdleness(Optional<Limits.Idle> idle, Optional<RunHold> hold) {
    if (idle.isEmpty() || hold.isEmpty()) {
      return () -> {};
    }
    Stop order = new Stop(ExitReason.IDLE, "GPUs idle: used " + idle.get());
    return context
        .gpus()
        .listen(
            new IdleWatch(
                idle.get(),
                hold.get().gpus(),
                context.gpus()::nowNanos,
                () -> tasks.soon(() -> exceeded.accept(order))));
  }
}
