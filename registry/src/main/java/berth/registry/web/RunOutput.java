package berth.registry.web;

import berth.http.EventStream;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.OutputStream;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.EnumMap;
import java.util.Map;

/**
 * Passes the output of one run on to one reader, no faster than that one reads. Each event has the
 * place as its id from which a reader goes on that comes back.
 */
final class RunOutput implements ServerClient.Stream<RunEvent> {
  private final EventStream reader;
  private final Map<OutputStream, Text> texts = new EnumMap<>(OutputStream.class);
  // Null until it is known.
  private ServerClient.Reading run;
  private boolean waiting;
  private boolean readerGone;

  RunOutput(EventStream reader) {
    this.reader = reader;
  }

  /** Begins. The client is closed when the reader has gone or all is told. */
  static void follow(ServerClient server, String runId, long offset, EventStream reader) {
    RunOutput output = new RunOutput(reader);
    // Before anything arrives, or its end could be missed.
    reader.onReady(output::readerIsReady);
    reader.onEnd(
        () -> {
          output.readerIsGone();
          server.close();
        });
    output.read(server.attachRun(runId, offset, output));
  }

  private void read(ServerClient.Reading reading) {
    boolean over;
    synchronized (this) {
      run = reading;
      over = readerGone;
    }
    if (over) {
      reading.cancel();
    } else if (reader.isReady()) {
      readerIsReady();
    }
  }

  private void readerIsGone() {
    ServerClient.Reading reading;
    synchronized (this) {
      readerGone = true;
      reading = run;
    }
    if (reading != null) {
      reading.cancel();
    }
  }

  private void readerIsReady() {
    ServerClient.Reading reading;
    synchronized (this) {
      if (!waiting || run == null) {
        return;
      }
      waiting = false;
      reading = run;
    }
    reading.more();
  }

  @Override
  public boolean next(RunEvent event) {
    switch (event.getEventCase()) {
      case OUTPUT -> send(event.getOutput());
      case TRUNCATED ->
          reader.send(
              EventStream.event(
                  "truncated",
                  PageJson.object(
                      json ->
                          json.put("stream", name(event.getTruncated().getStream()))
                              .put("kept", event.getTruncated().getKeptBytes()))));
      case EXITED -> reader.send(EventStream.event("exited", exited(event.getExited())));
      case ACCEPTED, QUEUED, RESERVED, PULLING, STARTED, EVENT_NOT_SET -> {}
    }
    synchronized (this) {
      waiting = !reader.isReady();
      return !waiting;
    }
  }

  private void send(berth.v1.RunOutput output) {
    Text text = texts.computeIfAbsent(output.getStream(), stream -> new Text());
    String decoded = text.decode(output.getData().asReadOnlyByteBuffer());
    if (decoded.isEmpty()) {
      return;
    }
    // Who comes back gets the beginning of a character again rather than half of it.
    long next = output.getOffset() + output.getData().size() - text.pending();
    reader.send(
        EventStream.event(
            "output",
            Long.toString(next),
            PageJson.object(
                json ->
                    json.put("stream", name(output.getStream()))
                        .put("offset", output.getOffset())
                        .putOutput("text", decoded))));
  }

  private static String exited(RunExited exited) {
    return PageJson.object(
        json ->
            json.put("exitCode", exited.getExitCode())
                .put("reason", PageJson.word(exited.getReason(), "EXIT_REASON_"))
                .put("why", exited.getMessage())
                .put("seconds", PageJson.seconds(exited.getWallTime())));
  }

  @Override
  public void ended(BerthException failure) {
    if (failure == null) {
      reader.end();
    } else {
      fail(reader, failure);
    }
  }

  /**
   * Says why there is no output, and ends. A browser tells a page only of events, not of errors.
   */
  static void fail(EventStream reader, BerthException why) {
    boolean again = why.reason() == Reason.UNAVAILABLE || why.reason() == Reason.TIMED_OUT;
    reader.send(
        EventStream.event(
            "failed",
            PageJson.object(json -> json.put("error", why.getMessage()).put("again", again))));
    reader.end();
  }

  private static String name(OutputStream stream) {
    return stream == OutputStream.OUTPUT_STREAM_STDERR ? "err" : "out";
  }

  /** Makes characters of bytes that may be cut anywhere; what is none becomes a question mark. */
  private static final class Text {
    private final CharsetDecoder decoder =
        StandardCharsets.UTF_8
            .newDecoder()
            .onMalformedInput(CodingErrorAction.REPLACE)
            .onUnmappableCharacter(CodingErrorAction.REPLACE);
    private byte[] rest = new byte[0];

    /** How many bytes at the end are the beginning of a character. */
    int pending() {
      return rest.length;
    }

    String decode(ByteBuffer bytes) {
      ByteBuffer all = ByteBuffer.allocate(rest.length + bytes.remaining());
      all.put(rest).put(bytes).flip();
      CharBuffer text = CharBuffer.allocate(all.remaining());
      decoder.decode(all, text, false);
      rest = new byte[all.remaining()];
      all.get(rest);
      return text.flip().toString();
    }
  }
}
