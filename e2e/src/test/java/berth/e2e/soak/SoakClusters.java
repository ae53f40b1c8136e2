package berth.e2e.soak;

import berth.e2e.soak.ClusterEnding.Attempt;
import berth.e2e.soak.Tally.Count;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;

/** The clusters of a soak: each is asked for, followed to its end, and checked. */
final class SoakClusters {
  private static final Duration ASK_AGAIN = Duration.ofSeconds(2);

  // How long what a cluster holds on a server that is away may go on: its lease, the grace of its
  // programs, and as much again for a busy machine.
  private static final Duration LEASE_IS_OVER = Duration.ofSeconds(60);

  private final SoakParts parts;

  SoakClusters(SoakParts parts) {
    this.parts = parts;
  }

  /** One that a server supervises. */
  void supervised(String name, Random random) throws Exception {
    ClusterWish wish = wish(name, random);
    long from = System.nanoTime();
    SoakCommand handOver = parts.world().start("cluster", "run", "--detach", file(wish).toString());
    if (!parts.await(handOver) || handOver.exitCode() != 0) {
      refused(name, from, handOver);
      return;
    }
    String id = handOver.out().strip();
    parts.tally().note(name + " is " + id + ": " + handOver.err());
    handOver.forget();
    parts.targets().supervised(name);
    Optional<ClusterStatus> end;
    try {
      end = awaitEnd(name, id, from, random);
    } finally {
      parts.targets().over(name);
    }
    if (end.isPresent()) {
      ClusterEnding ending = ClusterEnding.of(end.get());
      parts.tally().add(Count.SUPERVISOR_RESTARTS, end.get().getSupervisorRestarts());
      judge(wish, ending, from);
      checkLogs(name, id, ending, from);
    }
  }

  /** One that ends with its client. */
  void attached(String name, Random random) throws Exception {
    ClusterWish wish = wish(name, random);
    long from = System.nanoTime();
    SoakCommand client =
        parts.world().start("cluster", "run", "--json", "--no-logs", file(wish).toString());
    parts.targets().began(name, client);
    boolean ended = parts.await(client);
    parts.targets().ended(name);
    if (parts.targets().leftAlone(name)) {
      parts.tally().add(Count.CLUSTERS_ABANDONED);
      client.forget();
      return;
    }
    if (!ended) {
      parts.blame(name, "it did not end by itself", client);
      return;
    }
    List<JsonObject> events = events(client);
    Optional<ClusterEnding> ending = ClusterEnding.of(events);
    if (ending.isEmpty()) {
      refused(name, from, client);
      return;
    }
    judge(wish, ending.get(), from);
    checkOutput(name, events, ending.get(), client);
  }

  private static List<JsonObject> events(SoakCommand command) {
    return command
        .out()
        .lines()
        .map(line -> JsonParser.parseString(line).getAsJsonObject())
        .toList();
  }

  /** The lines that tasks printed, as events tell them. */
  private static List<String> output(List<JsonObject> events) {
    return events.stream()
        .filter(event -> event.get("event").getAsString().equals("output"))
        .map(event -> event.get("data").getAsString().stripTrailing())
        .toList();
  }

  private ClusterWish wish(String name, Random random) {
    return ClusterWish.random(name, parts.pace().ticks(random), random);
  }

  private Path file(ClusterWish wish) throws IOException {
    return Files.writeString(
        parts.world().folder().resolve(wish.name() + ".yaml"),
        wish.yaml(parts.script(), parts.witness()));
  }

  private void refused(String name, long from, SoakCommand command) {
    if (parts.troubleSince(from)) {
      parts.tally().add(Count.CLUSTERS_REFUSED);
      parts.tally().note(name + " is refused: " + command.err());
      command.forget();
    } else {
      parts.blame(name, "it is refused although everybody is there", command);
    }
  }

  private Optional<ClusterStatus> awaitEnd(String name, String id, long from, Random random)
      throws Exception {
    while (true) {
      follow(name, id, from, random);
      Optional<ClusterStatus> status = status(name, id);
      if (status.filter(now -> now.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED).isPresent()) {
        return status;
      }
      if (parts.calm().overdue()) {
        parts.tally().violation(name + " did not end by itself: " + status);
        parts.world().berth("cluster", "cancel", "--force", "--no-wait", id);
        return Optional.empty();
      }
      parts.calm().await(ASK_AGAIN);
    }
  }

  /** Looks on, in one of the ways there are, for as long as that goes well. */
  private void follow(String name, String id, long from, Random random) throws Exception {
    int way = random.nextInt(3);
    SoakCommand follower =
        switch (way) {
          case 0 -> parts.world().start("cluster", "logs", "--follow", id);
          case 1 -> parts.world().start("cluster", "attach", "--json", id);
          default -> parts.world().start("cluster", "status", "--watch", "--json", id);
        };
    long begun = System.nanoTime();
    if (!parts.await(follower)) {
      return;
    }
    // Who attaches ends as the cluster did.
    boolean well = way == 1 || follower.exitCode() == 0;
    List<String> problems =
        switch (way) {
          case 0 -> Printed.of(follower.out().lines().toList()).problems();
          case 1 -> Printed.of(output(events(follower)), true).problems();
          default -> List.of();
        };
    if (!problems.isEmpty()) {
      parts.blame(name, problems.toString(), follower);
    } else if (!well && !parts.troubleSince(begun)) {
      parts.blame(name, "following it fails although everybody is there", follower);
    } else {
      if (!well) {
        parts.tally().note(name + " cannot be followed: " + follower.err());
      }
      follower.forget();
    }
  }

  private Optional<ClusterStatus> status(String name, String id)
      throws InterruptedException, InvalidProtocolBufferException {
    long begun = System.nanoTime();
    SoakCommand asked = parts.world().start("cluster", "status", "--json", id);
    parts.await(asked);
    if (asked.exitCode() == 0) {
      ClusterStatus.Builder status = ClusterStatus.newBuilder();
      JsonFormat.parser().merge(asked.out(), status);
      asked.forget();
      return Optional.of(status.build());
    }
    if (parts.troubleSince(begun)) {
      asked.forget();
    } else {
      parts.blame(name, "its state is not told although everybody is there", asked);
    }
    return Optional.empty();
  }

  private void judge(ClusterWish wish, ClusterEnding ending, long from) {
    String name = wish.name();
    parts.tally().note(name + " ended: " + ending);
    parts
        .tally()
        .add(
            switch (ending.outcome()) {
              case SUCCEEDED -> Count.CLUSTERS_SUCCEEDED;
              case FAILED -> Count.CLUSTERS_FAILED;
              case TIME_LIMIT -> Count.CLUSTERS_OUT_OF_TIME;
              case CANCELLED -> Count.CLUSTERS_CANCELLED;
            });
    parts.tally().add(Count.RESTARTS, ending.restarts());
    parts.tally().add(Count.RESUBMISSIONS, ending.resubmissions());
    new ClusterTruth(
            wish,
            parts.witness()::journal,
            parts.witness()::killed,
            server -> parts.troubleSince(server, from),
            parts.targets().cancelled(name))
        .lies(ending)
        .forEach(lie -> parts.tally().violation(name + ": " + lie));
    Set<String> known = ending.attempts().stream().map(Attempt::run).collect(Collectors.toSet());
    for (Journal journal : parts.witness().journals(name)) {
      Absences absences = parts.world().server(journal.server()).absences();
      if (journal.lives() && !absences.within(LEASE_IS_OVER)) {
        parts.tally().violation(name + " has ended, but " + journal + " still runs");
      }
      if (!known.contains(journal.run()) && !parts.troubleSince(journal.server(), from)) {
        parts.tally().violation(name + " does not know of " + journal);
      }
    }
  }

  /** What its tasks printed is on their servers, whole, as soon as these are there. */
  private void checkLogs(String name, String id, ClusterEnding ending, long from) throws Exception {
    while (true) {
      long begun = System.nanoTime();
      SoakCommand logs = parts.world().start("cluster", "logs", id);
      parts.await(logs);
      List<String> problems = new ArrayList<>();
      if (logs.exitCode() != 0 || !logs.err().isEmpty()) {
        problems.add("its output is not told");
      } else {
        Printed printed = Printed.of(logs.out().lines().toList());
        problems.addAll(printed.problems());
        for (Attempt attempt : ending.attempts()) {
          parts
              .witness()
              .journal(attempt.run())
              .ifPresent(journal -> problems.addAll(printed.compare(journal, true)));
        }
      }
      if (problems.isEmpty()) {
        logs.forget();
        return;
      }
      if (!parts.troubleSince(begun)) {
        parts.blame(name, problems.toString(), logs);
        return;
      }
      logs.forget();
      parts.calm().await(ASK_AGAIN);
    }
  }

  /** What the client was shown of each task is whole if it heard of its end. */
  private void checkOutput(
      String name, List<JsonObject> events, ClusterEnding ending, SoakCommand client) {
    Printed printed = Printed.of(output(events));
    List<String> problems = new ArrayList<>(printed.problems());
    for (Attempt attempt : ending.attempts()) {
      parts
          .witness()
          .journal(attempt.run())
          .ifPresent(
              journal -> problems.addAll(printed.compare(journal, attempt.exitCode().isPresent())));
    }
    if (problems.isEmpty()) {
      client.forget();
    } else {
      parts.blame(name, problems.toString(), client);
    }
  }
}
