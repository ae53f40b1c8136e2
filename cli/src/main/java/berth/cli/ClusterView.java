package berth.cli;

import berth.client.call.Lines;
import berth.client.cluster.ClusterEvent;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.ClusterResult;
import berth.client.cluster.ClusterSpec;
import berth.client.cluster.TaskGroup;
import berth.client.cluster.TaskName;
import berth.client.cluster.TaskResult;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.stream.Collectors;

/**
 * Shows a cluster as it happens: each line of each task with the task's name before it, each stream
 * on its own, and what Berth has to say beside it on standard error. Any thread may call.
 */
final class ClusterView implements Consumer<ClusterEvent> {
  // More than this is not looked at line by line.
  private static final int MANY = 50;
  private static final int PLAIN_STEP_PERCENT = 25;

  /**
   * A stream of this process.
   *
   * @param begun what is to be written next: whole lines only
   */
  record Shown(OutputStream stream, Terminal terminal, ByteArrayOutputStream begun) {
    Shown(OutputStream stream, Terminal terminal) {
      this(stream, terminal, new ByteArrayOutputStream());
    }

    void flush() throws IOException {
      if (begun.size() > 0) {
        begun.writeTo(stream);
        begun.reset();
      }
    }
  }

  private final Shown out;
  private final Shown err;
  private final RunView.Detail detail;
  private final Map<TaskName, Integer> gpuCounts;
  private final int taskCount;
  private final Progress progress;
  private final Map<TaskName, TaskLines> lines = new HashMap<>();
  private final Map<TaskName, String> pulling = new HashMap<>();
  private final CompletableFuture<IOException> unwritable = new CompletableFuture<>();
  private Optional<ClusterLogs> logs = Optional.empty();
  private ClusterSpec spec;
  private int started;

  /**
   * @param gpuCounts the tasks in their order, each with how many GPUs it asks for; -1: all of a
   *     server
   */
  ClusterView(Shown out, Shown err, RunView.Detail detail, Map<TaskName, Integer> gpuCounts) {
    this.out = out;
    this.err = err;
    this.detail = detail;
    this.gpuCounts = gpuCounts;
    this.progress = new Progress(new PrintStream(err.stream(), true), err.terminal().interactive());
    List<TaskName> tasks = List.copyOf(gpuCounts.keySet());
    this.taskCount = tasks.size();
    int width = tasks.stream().mapToInt(task -> task.toString().length()).max().orElse(0);
    for (int i = 0; i < tasks.size(); i++) {
      lines.put(tasks.get(i), lines(tasks.get(i), new LinePrefix(tasks.get(i), width, i)));
    }
  }

  static ClusterView ofThisProcess(RunView.Detail detail, ClusterRequest request) {
    return ofThisProcess(detail, ClusterTable.gpuCounts(request));
  }

  // Not through System.out, which has a buffer and a lock for every message.
  static ClusterView ofThisProcess(RunView.Detail detail, Map<TaskName, Integer> gpuCounts) {
    return new ClusterView(
        new Shown(new FileOutputStream(FileDescriptor.out), Terminal.of(1)),
        new Shown(new FileOutputStream(FileDescriptor.err), Terminal.of(2)),
        detail,
        gpuCounts);
  }

  private TaskLines lines(TaskName task, LinePrefix prefix) {
    return detail == RunView.Detail.JSON
        ? new TaskLines(json(task, false), json(task, true))
        : new TaskLines(
            (line, ended) -> prefix.write(line, out.terminal(), out.begun()),
            (line, ended) -> prefix.write(line, err.terminal(), err.begun()));
  }

  private Lines.Reader json(TaskName task, boolean error) {
    return (line, ended) -> {
      String text = new String(line, StandardCharsets.UTF_8) + (ended ? "\n" : "");
      json(ClusterJson.output(task, error, text));
    };
  }

  private void json(String line) {
    out.begun().writeBytes((line + "\n").getBytes(StandardCharsets.UTF_8));
  }

  /** Keeps the output in files too. */
  synchronized void keepIn(ClusterLogs logs) {
    this.logs = Optional.of(logs);
  }

  /**
   * The same for those who are to stop when nobody reads the output any more.
   *
   * @return throws an {@link UncheckedIOException} then
   */
  Consumer<ClusterEvent> whileRead() {
    return event -> {
      accept(event);
      if (unwritable.isDone()) {
        throw new UncheckedIOException(unwritable.join());
      }
    };
  }

  /** Is complete when nobody can read the output any more, with the reason. */
  CompletableFuture<IOException> unwritable() {
    return unwritable;
  }

  @Override
  public synchronized void accept(ClusterEvent event) {
    keep(event);
    if (unwritable.isDone()) {
      return;
    }
    if (event instanceof ClusterEvent.Output output) {
      lines.get(output.task()).add(output.error(), output.data());
    } else {
      if (event instanceof ClusterEvent.Ended ended) {
        lines.get(ended.result().task()).end();
        flush();
      }
      if (detail == RunView.Detail.JSON) {
        json(ClusterJson.event(event));
      } else if (detail == RunView.Detail.ALL) {
        tell(event);
      }
    }
    flush();
  }

  private void keep(ClusterEvent event) {
    if (logs.isEmpty()) {
      return;
    }
    if (event instanceof ClusterEvent.Output output) {
      logs.get().output(output.task(), output.data());
    } else if (event instanceof ClusterEvent.Formed formed) {
      logs.get().spec(formed.spec());
    }
  }

  // In one piece, and no note in the middle of it, so that lines stay whole.
  private void flush() {
    if (out.begun().size() > 0 || err.begun().size() > 0) {
      progress.erase();
    }
    try {
      out.flush();
      synchronized (progress) {
        err.flush();
      }
    } catch (IOException e) {
      unwritable.complete(e);
    }
  }

  private void tell(ClusterEvent event) {
    if (event instanceof ClusterEvent.Waiting waiting) {
      progress.show("waiting: " + waiting.why());
    } else if (event instanceof ClusterEvent.Formed formed) {
      spec = formed.spec();
      started = 0;
      progress.erase();
      progress.print(ClusterTable.placement(gpuCounts, formed.plan(), spec, MANY));
    } else if (event instanceof ClusterEvent.Pulling news) {
      tellPulling(news);
    } else if (event instanceof ClusterEvent.Started news) {
      tellStarted(news);
    } else if (event instanceof ClusterEvent.AllStarted) {
      progress.erase();
      note(taskCount == 1 ? "the task runs" : "all " + taskCount + " tasks run");
    } else if (event instanceof ClusterEvent.Ended ended) {
      tellEnded(ended.result());
    } else if (event instanceof ClusterEvent.Restarting news) {
      note(
          news.task()
              + " restarts"
              + (news.pause().isZero()
                  ? ""
                  : " in " + news.pause().plusMillis(999).toSeconds() + " s")
              + " (attempt "
              + news.attempt()
              + ")"
              + because(news.why()));
    } else if (event instanceof ClusterEvent.Reforming news) {
      progress.erase();
      note("the whole cluster restarts" + because(news.why()));
    } else if (event instanceof ClusterEvent.Note note) {
      note(note.text());
    }
  }

  private void tellPulling(ClusterEvent.Pulling news) {
    int percent = news.percent();
    if (!progress.redrawn()) {
      percent -= percent % PLAIN_STEP_PERCENT;
    }
    String text = news.task() + ": pulling " + news.image() + ": " + percent + " %";
    // Several tasks pull at the same time, so the last line may be another's.
    if (!text.equals(pulling.put(news.task(), text))) {
      progress.show(text);
    }
  }

  private void tellStarted(ClusterEvent.Started news) {
    started++;
    if (taskCount <= MANY) {
      // It may still show that the image of this one is being fetched.
      progress.erase();
      String gpus =
          news.gpus().isEmpty()
              ? ""
              : (news.gpus().size() == 1 ? ", GPU " : ", GPUs ")
                  + news.gpus().stream().map(String::valueOf).collect(Collectors.joining(","));
      note(news.task() + " runs on " + news.server() + gpus + " (" + news.runId() + ")");
    } else if (progress.redrawn()) {
      progress.show(started + " of " + taskCount + " tasks run");
    }
    if (news.task().type().equals(TaskGroup.TENSORBOARD) && spec != null) {
      note("TensorBoard: http://" + spec.address(news.task()) + "/");
    }
  }

  private void tellEnded(TaskResult result) {
    boolean failed =
        !result.well()
            && result.end() != TaskResult.End.CANCELLED
            && result.end() != TaskResult.End.RESTARTED;
    if (failed || taskCount <= MANY) {
      note(result.task() + (failed ? " failed: " : " ended: ") + ClusterTable.why(result));
    }
  }

  /** Says something on standard error; waits for nobody who is slow to read the output. */
  void note(String text) {
    progress.note(text);
  }

  /** Shows what the tasks have printed of lines that are not at their end. */
  synchronized void endLines() {
    gpuCounts.keySet().forEach(task -> lines.get(task).end());
    flush();
  }

  /** Shows how it ended, after everything else. */
  synchronized void ended(ClusterResult result, int exitCode) {
    if (unwritable.isDone()) {
      return;
    }
    endLines();
    if (detail == RunView.Detail.JSON) {
      json(ClusterJson.result(result, exitCode, logs.map(ClusterLogs::folder)));
      flush();
      return;
    }
    flush();
    progress.erase();
    if (detail == RunView.Detail.ALL) {
      progress.print(ClusterTable.results(result, MANY));
    }
    if (!result.succeeded() || detail == RunView.Detail.ALL) {
      note(result.name() + " " + outcome(result) + after(result) + because(result.why()));
      logs.ifPresent(kept -> note("logs: " + kept.folder()));
    }
  }

  private static String outcome(ClusterResult result) {
    return switch (result.outcome()) {
      case SUCCEEDED -> "succeeded";
      case FAILED -> "failed";
      case TIME_LIMIT -> "ran out of time";
      case CANCELLED -> "was cancelled";
    };
  }

  private static String after(ClusterResult result) {
    return " after " + TimeText.span(result.wallTime());
  }

  private static String because(String why) {
    return why.isEmpty() ? "" : ": " + why;
  }
}
