package berth.cli;

import berth.rpc.BerthException;
import berth.rpc.ByteSize;
import berth.rpc.Reason;
import berth.v1.ExitReason;
import berth.v1.Pulling;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import berth.v1.RunStarted;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/**
 * Shows a run as it happens: the program's output byte for byte, each stream on its own, and what
 * Berth has to say beside it on standard error. One thread may pass events; any thread may call the
 * rest.
 *
 * <p>Output that cannot be written ends the stream of events with an {@link UncheckedIOException}.
 */
final class RunView implements Consumer<RunEvent> {
  /** How much to show. */
  enum Detail {
    /** Everything. */
    ALL,
    /** The output, and why a run failed. */
    QUIET,
    /** Every event as a line of JSON, in place of all else. */
    JSON
  }

  private static final int PLAIN_STEP_PERCENT = 25;

  private final OutputStream out;
  private final OutputStream err;
  private final Progress progress;
  private final Detail detail;
  private volatile String runId = "";
  private RunExited exited = RunExited.getDefaultInstance();
  private volatile boolean over;
  private boolean outputBegan;

  RunView(OutputStream out, OutputStream err, boolean terminal, Detail detail) {
    this.out = out;
    this.err = err;
    this.progress = new Progress(new PrintStream(err, true), terminal);
    this.detail = detail;
  }

  // Not through System.out, which has a buffer and a lock for every message.
  static RunView ofThisProcess(Detail detail) {
    return new RunView(
        new FileOutputStream(FileDescriptor.out),
        new FileOutputStream(FileDescriptor.err),
        Terminal.showsErrors(),
        detail);
  }

  /**
   * Returns if output cannot be written because its reader has gone, as {@code head} does.
   *
   * @throws BerthException if it is for another reason, such as a full disk
   */
  static void checkReaderHasGone(UncheckedIOException failure) {
    String why = String.valueOf(failure.getCause().getMessage());
    if (!why.contains("Broken pipe")) {
      throw new BerthException(Reason.EXHAUSTED, "cannot write the output: " + why, failure);
    }
  }

  /** The run's name; empty before it was accepted. */
  String runId() {
    return runId;
  }

  /** The run is no longer where it was accepted; it has no name until it is accepted elsewhere. */
  void forgetRun() {
    runId = "";
  }

  /** How the run ended; without a reason if it has not. */
  RunExited exited() {
    return exited;
  }

  /** Whether the run has ended. Any thread may call. */
  boolean over() {
    return over;
  }

  @Override
  public void accept(RunEvent event) {
    if (event.hasAccepted()) {
      runId = event.getAccepted().getRunId();
    } else if (event.hasExited()) {
      exited = event.getExited();
      over = true;
    }
    try {
      if (detail == Detail.JSON) {
        out.write((JsonOutput.line(event) + "\n").getBytes(StandardCharsets.UTF_8));
      } else {
        show(event);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Says something on standard error. */
  void note(String text) {
    progress.note(text);
  }

  private void show(RunEvent event) throws IOException {
    switch (event.getEventCase()) {
      case QUEUED -> progress(runId + ": " + ReserveCommand.place(event.getQueued()));
      case RESERVED -> {
        if (progress.redrawn()) {
          progress(runId + ": has its GPUs");
        }
      }
      case PULLING -> progress(pulling(event.getPulling()));
      case STARTED -> started(event.getStarted());
      case OUTPUT -> output(event.getOutput());
      case TRUNCATED -> {
        String stream =
            event.getTruncated().getStream() == berth.v1.OutputStream.OUTPUT_STREAM_STDERR
                ? "standard error"
                : "standard output";
        unlessQuiet(
            stream
                + " is at its limit of "
                + ByteSize.text(event.getTruncated().getKeptBytes())
                + ": the server drops the rest; the program continues");
      }
      case EXITED -> ended(event.getExited());
      case ACCEPTED, EVENT_NOT_SET -> {}
    }
  }

  private String pulling(Pulling pull) {
    int percent = pull.getPercent();
    if (!progress.redrawn()) {
      percent -= percent % PLAIN_STEP_PERCENT;
      return "pulling " + pull.getImage() + (percent == 0 ? "" : ": " + percent + " %");
    }
    return String.format(
        "pulling %s: %d %%, %s of %s",
        pull.getImage(), percent, mebibytes(pull.getBytesDone()), mebibytes(pull.getBytes()));
  }

  private static String mebibytes(long bytes) {
    return (bytes >> 20) + " MiB";
  }

  private void started(RunStarted started) {
    progress.erase();
    if (!started.getIsolated()) {
      unlessQuiet("not isolated: a plain process of " + started.getHost());
    }
    started.getNotEnforcedList().forEach(what -> unlessQuiet("not enforced here: " + what));
  }

  private void output(RunOutput output) throws IOException {
    if (!outputBegan) {
      outputBegan = true;
      progress.erase();
    }
    boolean toErr = output.getStream() == berth.v1.OutputStream.OUTPUT_STREAM_STDERR;
    output.getData().writeTo(toErr ? err : out);
  }

  private void ended(RunExited end) {
    progress.erase();
    if (end.getReason() != ExitReason.EXIT_REASON_FINISHED) {
      note(
          runId
              + ": "
              + (end.getMessage().isEmpty() ? RunEnd.words(end.getReason()) : end.getMessage()));
    }
    if (!end.getHeldBack().isEmpty()) {
      unlessQuiet("its GPUs are not free yet: " + end.getHeldBack());
    }
  }

  private void progress(String text) {
    if (detail == Detail.ALL) {
      progress.show(text);
    }
  }

  /** The same, unless only the program's output is wanted. */
  void unlessQuiet(String text) {
    if (detail == Detail.ALL) {
      note(text);
    }
  }
}
