package berth.e2e.soak;

import berth.e2e.soak.Tally.Count;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;

/** The single runs of a soak: each is started, followed to its end, and checked. */
final class SoakRuns {
  private static final String NO_TASK = "-";
  private static final int OUT_OF_TIME = 124;
  private static final int BERTH_FAILED = 125;
  private static final int KILLED = 128 + 9;
  private static final int STOPPED = 128 + 15;
  private static final Duration ASK_AGAIN = Duration.ofSeconds(2);

  private final SoakParts parts;

  SoakRuns(SoakParts parts) {
    this.parts = parts;
  }

  /**
   * @param limited whether its time is too short for it
   */
  private record Wish(List<String> words, boolean limited) {}

  private Wish wish(String name, List<String> options, Random random) {
    int ticks = parts.pace().ticks(random);
    boolean limited = random.nextInt(10) == 0;
    List<String> words = new ArrayList<>(List.of("run"));
    words.addAll(options);
    words.addAll(List.of("--gpus", "" + random.nextInt(3), "--stop-grace", "5s"));
    if (limited) {
      words.addAll(List.of("--time", Math.max(1, ticks / 8) + "s"));
    }
    words.add(parts.script().toString());
    int failures = random.nextInt(8) == 0 ? 1 : 0;
    boolean stubborn = random.nextInt(6) == 0;
    words.addAll(parts.witness().words(name, NO_TASK, ticks, failures, stubborn));
    return new Wish(words, limited);
  }

  /** One that ends with its client. */
  void attached(String name, Random random) throws InterruptedException {
    Wish wish = wish(name, List.of("--quiet"), random);
    long from = System.nanoTime();
    SoakCommand client = parts.world().start(wish.words.toArray(String[]::new));
    parts.targets().began(name, client);
    boolean ended = parts.await(client);
    parts.targets().ended(name);
    if (parts.targets().leftAlone(name)) {
      parts.tally().add(Count.RUNS_ABANDONED);
      client.forget();
      return;
    }
    if (!ended) {
      parts.blame(name, "it did not end by itself", client);
      return;
    }
    Optional<Journal> journal = journal(name);
    int code = client.exitCode();
    List<String> problems = new ArrayList<>();
    if (code == BERTH_FAILED && parts.troubleSince(from)) {
      // Its server waits in vain for it.
      parts.targets().leave(name);
      parts.tally().add(Count.RUNS_REFUSED);
      parts.tally().note(name + " is lost or refused: " + client.err());
    } else {
      count(name, code, wish);
      if (!mayEnd(name, journal, code, wish)) {
        problems.add("it ended with " + code + ", its program says " + journal);
      }
    }
    Printed printed = Printed.of(client.out().lines().toList());
    problems.addAll(printed.problems());
    journal.ifPresent(program -> problems.addAll(printed.compare(program, code != BERTH_FAILED)));
    finish(name, problems, client);
  }

  /** One without a client, whose output somebody reads. */
  void detached(String name, Random random)
      throws InterruptedException, InvalidProtocolBufferException {
    Wish wish = wish(name, List.of("--detach"), random);
    long from = System.nanoTime();
    SoakCommand start = parts.world().start(wish.words.toArray(String[]::new));
    if (!parts.await(start) || start.exitCode() != 0) {
      if (parts.troubleSince(from)) {
        parts.tally().add(Count.RUNS_REFUSED);
        parts.tally().note(name + " is refused: " + start.err());
        start.forget();
      } else {
        parts.blame(name, "it is refused although everybody is there", start);
      }
      return;
    }
    String run = start.out().strip();
    parts.tally().note(name + " is " + run + ": " + start.err());
    start.forget();
    while (!followed(name, run, wish)) {
      if (parts.calm().overdue()) {
        parts.tally().violation(name + ", which is " + run + ", did not end by itself");
        return;
      }
      parts.calm().await(ASK_AGAIN);
    }
  }

  /** Reads it from its beginning; false if that broke off. */
  private boolean followed(String name, String run, Wish wish)
      throws InterruptedException, InvalidProtocolBufferException {
    long begun = System.nanoTime();
    SoakCommand reader = parts.world().start("logs", "--follow", "--json", run);
    if (!parts.await(reader)) {
      return false;
    }
    List<String> lines = new ArrayList<>();
    StringBuilder text = new StringBuilder();
    Optional<RunExited> exited = Optional.empty();
    for (String line : reader.out().lines().toList()) {
      RunEvent.Builder event = RunEvent.newBuilder();
      JsonFormat.parser().merge(line, event);
      if (event.hasOutput()) {
        text.append(event.getOutput().getData().toStringUtf8());
      } else if (event.hasExited()) {
        exited = Optional.of(event.getExited());
      }
    }
    text.toString().lines().forEach(lines::add);
    Printed printed = Printed.of(lines);
    List<String> problems = new ArrayList<>(printed.problems());
    if (exited.isEmpty()) {
      if (!parts.troubleSince(begun)) {
        problems.add("reading it fails although everybody is there");
      }
      finish(name, problems, reader);
      return false;
    }
    int code = code(exited.get());
    count(name, code, wish);
    Optional<Journal> journal = journal(name);
    if (!mayEnd(name, journal, code, wish)) {
      problems.add("it ended with " + exited.get() + ", its program says " + journal);
    }
    journal.ifPresent(program -> problems.addAll(printed.compare(program, true)));
    finish(name, problems, reader);
    return true;
  }

  /** What a client would exit with. */
  private static int code(RunExited exited) {
    return switch (exited.getReason()) {
      case EXIT_REASON_FINISHED, EXIT_REASON_CANCELLED -> exited.getExitCode();
      case EXIT_REASON_TIME_LIMIT -> OUT_OF_TIME;
      default -> BERTH_FAILED;
    };
  }

  private void finish(String name, List<String> problems, SoakCommand command) {
    if (problems.isEmpty()) {
      command.forget();
    } else {
      parts.blame(name, problems.toString(), command);
    }
  }

  private void count(String name, int code, Wish wish) {
    parts
        .tally()
        .add(
            code == 0
                ? Count.RUNS_SUCCEEDED
                : code == OUT_OF_TIME && wish.limited
                    ? Count.RUNS_OUT_OF_TIME
                    : parts.targets().cancelled(name) ? Count.RUNS_CANCELLED : Count.RUNS_FAILED);
  }

  /** Whether the end of a run is what its program says, or what was done to it. */
  private boolean mayEnd(String name, Optional<Journal> journal, int code, Wish wish) {
    boolean killed = journal.filter(program -> parts.witness().killed(program.run())).isPresent();
    boolean stopped = parts.targets().cancelled(name) || code == OUT_OF_TIME && wish.limited;
    OptionalInt said = journal.map(Journal::end).orElse(OptionalInt.empty());
    if (killed && code == KILLED) {
      return true;
    }
    if (stopped) {
      return code == OUT_OF_TIME
          || code == STOPPED
          || code == KILLED
          || said.equals(OptionalInt.of(code));
    }
    return said.equals(OptionalInt.of(code));
  }

  /** What its program wrote down. There must not be two. */
  private Optional<Journal> journal(String name) {
    List<Journal> all = parts.witness().journals(name);
    if (all.size() > 1) {
      parts.tally().violation(name + " ran more than once: " + all);
    }
    return all.stream().findFirst();
  }
}
