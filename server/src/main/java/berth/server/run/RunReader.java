package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.StreamFeed;
import berth.server.run.RunRecord.Ended;
import berth.server.run.RunRecord.Phase;
import berth.v1.OutputTruncated;
import berth.v1.Queued;
import berth.v1.RunEvent;
import berth.v1.RunOutput;
import com.google.protobuf.UnsafeByteOperations;
import java.util.EnumSet;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;

/**
 * One reader of a run: knows what it has been told, and finds the next thing to tell in the run as
 * it is now. So it costs the same however much has happened since it last read.
 */
final class RunReader implements StreamFeed.Source<RunEvent>, AutoCloseable {
  private static final int PIECE = 128 << 10;

  private final Runs runs;
  private final Run run;
  private final RunMessages messages;
  private final boolean readsOutput;
  private final boolean callers;
  private final boolean follows;
  private long offset;
  private boolean toldAccepted;
  private Optional<Queued> toldQueued = Optional.empty();
  private boolean toldReserved;
  private Optional<RunEngine.Pull> toldPull = Optional.empty();
  private boolean toldStarted;
  private final Set<OutputStreamKind> toldTruncated = EnumSet.noneOf(OutputStreamKind.class);
  private boolean ended;
  private Optional<Spool> past = Optional.empty();
  private boolean closed;

  /**
   * @param offset from where on it reads the output; empty: not at all
   * @param callers whether this is the call that made the run: a failure before the start is the
   *     call's own, and a detached run needs no more than its id
   * @param follows whether to wait for what is yet to come
   */
  RunReader(
      Runs runs,
      Run run,
      RunMessages messages,
      OptionalLong offset,
      boolean callers,
      boolean follows) {
    this.runs = runs;
    this.run = run;
    this.messages = messages;
    this.readsOutput = offset.isPresent();
    this.offset = offset.orElse(0);
    this.callers = callers;
    this.follows = follows;
  }

  @Override
  public RunEvent next() {
    if (ended) {
      return null;
    }
    if (runs.closed()) {
      throw new BerthException(
          Reason.UNAVAILABLE, "this server is stopping; " + run.id() + " continues");
    }
    // What is over is asked first: all of its output is there then.
    Run.View view = run.view();
    RunRecord record = view.record();
    RunEvent.Builder event = RunEvent.newBuilder();
    if (!toldAccepted) {
      toldAccepted = true;
      ended = callers && run.spec().detached();
      return event.setAccepted(messages.accepted(run)).build();
    }
    // Not before what it held is free: whoever reserved it may want to release it now.
    if (callers && view.settled() && view.started().isEmpty()) {
      throw run.failure()
          .orElseGet(() -> new BerthException(Reason.CONFLICT, record.ended().get().message()));
    }
    if (record.phase() == Phase.QUEUED && view.ahead().isPresent()) {
      Queued queued =
          Queued.newBuilder()
              .setAhead(view.ahead().getAsInt())
              .setWaitingBecause(view.waitingBecause())
              .build();
      if (!Optional.of(queued).equals(toldQueued)) {
        toldQueued = Optional.of(queued);
        return event.setQueued(queued).build();
      }
    }
    if (!toldReserved && view.reservation().isPresent()) {
      toldReserved = true;
      return event.setReserved(messages.reservation(view.reservation().get())).build();
    }
    if (view.pull().isPresent() && !view.pull().equals(toldPull)) {
      toldPull = view.pull();
      return event.setPulling(RunMessages.pulling(toldPull.get())).build();
    }
    if (!toldStarted && view.started().isPresent()) {
      toldStarted = true;
      return event.setStarted(messages.started(view.started().get())).build();
    }
    Optional<Spool> output =
        readsOutput && view.started().isPresent() ? output(record.ended()) : Optional.empty();
    if (output.isPresent()) {
      long end = record.ended().map(Ended::outputBytes).orElse(Long.MAX_VALUE);
      Optional<Spool.Chunk> chunk =
          output.get().read(offset, (int) Math.min(PIECE, Math.max(0, end - offset)));
      if (chunk.isPresent() && chunk.get().data().hasRemaining()) {
        offset += chunk.get().data().remaining();
        return event.setOutput(output(chunk.get())).build();
      }
      for (OutputStreamKind stream : OutputStreamKind.values()) {
        if (!toldTruncated.contains(stream) && output.get().dropped(stream)) {
          toldTruncated.add(stream);
          return event
              .setTruncated(
                  OutputTruncated.newBuilder()
                      .setStream(RunMessages.stream(stream))
                      .setKeptBytes(output.get().size(stream)))
              .build();
        }
      }
    }
    if (view.settled() || (!follows && record.ended().isPresent())) {
      ended = true;
      return event
          .setExited(RunMessages.exited(record.ended().orElseThrow(), view.heldBack()))
          .build();
    }
    ended = !follows;
    return null;
  }

  @Override
  public boolean ended() {
    return ended;
  }

  @Override
  public synchronized void close() {
    closed = true;
    past.ifPresent(Spool::close);
  }

  private Optional<Spool> output(Optional<Ended> over) {
    if (past.isPresent()) {
      return past;
    }
    if (over.isEmpty()) {
      return run.liveOutput();
    }
    if (offset > over.get().outputBytes()) {
      throw new BerthException(
          Reason.INVALID,
          "output from byte "
              + offset
              + " asked, "
              + run.id()
              + " has "
              + over.get().outputBytes());
    }
    Spool opened = runs.pastOutput(run);
    // The caller may leave while it is being opened, and nobody would close it then.
    synchronized (this) {
      past = Optional.of(opened);
      if (closed) {
        opened.close();
      }
    }
    return past;
  }

  private static RunOutput output(Spool.Chunk chunk) {
    return RunOutput.newBuilder()
        .setStream(RunMessages.stream(chunk.stream()))
        .setOffset(chunk.offset())
        .setData(UnsafeByteOperations.unsafeWrap(chunk.data()))
        .build();
  }
}
