package berth.e2e.soak;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Stream;

/**
 * Breaks something every few seconds, and repairs it a little later. At most two servers are away
 * at a time, so that there is always room for what goes on.
 */
final class SoakFaults {
  private static final int MOST_AWAY = 2;
  private static final int LONGEST_STOP_MILLIS = 8_000;
  private static final int LONGEST_SHORT_CUT_MILLIS = 15_000;
  private static final int SHORTEST_LONG_CUT_MILLIS = 40_000;
  private static final int LONGEST_LONG_CUT_MILLIS = 60_000;

  private final SoakParts parts;
  private final Random random;
  private final ExecutorService repairs = Executors.newCachedThreadPool();
  private final List<Fault> bag = new ArrayList<>();
  private final Set<SoakServer> away = new HashSet<>();
  private boolean longCut;

  SoakFaults(SoakParts parts, Random random) {
    this.parts = parts;
    this.random = random;
  }

  /** Goes on until all is to be calm, and returns when everything is repaired. */
  void run() throws InterruptedException {
    while (!parts.calm().await(parts.pace().gap(random))) {
      Fault fault = next();
      Optional<String> hit = inflict(fault);
      hit.ifPresent(what -> count(fault, what));
    }
    repairs.shutdown();
    repairs.awaitTermination(1, TimeUnit.HOURS);
  }

  private void count(Fault fault, String what) {
    parts.tally().add(fault);
    parts.tally().note(fault + " " + what);
  }

  // Each as often as its share, so that none is left out for long.
  private Fault next() {
    if (bag.isEmpty()) {
      parts.pace().faults().forEach(fault -> bag.addAll(Collections.nCopies(fault.share(), fault)));
      Collections.shuffle(bag, random);
    }
    return bag.remove(bag.size() - 1);
  }

  /** What it hit; empty if that is nothing, or will be counted when it is known. */
  private Optional<String> inflict(Fault fault) {
    return switch (fault) {
      case TASK_KILLED -> killTask();
      case SERVER_KILLED ->
          breakServer(parts.world().servers(), SoakServer::kill, SoakServer::start, shortStop());
      case SERVER_STOPPED ->
          breakServer(parts.world().servers(), this::stop, SoakServer::start, shortStop());
      case REGISTRY_KILLED ->
          breakServer(
              List.of(parts.world().registry()), SoakServer::kill, SoakServer::start, shortStop());
      case SUPERVISOR_KILLED -> killSupervisor();
      case CLIENT_KILLED -> parts.targets().killClient(random);
      case SHORT_CUT ->
          breakServer(
              parts.world().servers(),
              SoakServer::cut,
              SoakServer::heal,
              1 + random.nextInt(LONGEST_SHORT_CUT_MILLIS));
      case LONG_CUT -> cutForLong();
      case CLUSTER_CANCELLED -> {
        cancelCluster();
        yield Optional.empty();
      }
      case RUN_CANCELLED -> {
        cancelRun();
        yield Optional.empty();
      }
    };
  }

  private int shortStop() {
    return random.nextInt(LONGEST_STOP_MILLIS);
  }

  private interface Step {
    void take(SoakServer server) throws InterruptedException;
  }

  private Optional<String> breakServer(
      List<SoakServer> servers, Step breaks, Step repairs, int millis) {
    Optional<SoakServer> chosen = take(servers);
    chosen.ifPresent(server -> repairLater(server, breaks, repairs, millis));
    return chosen.map(server -> server.name() + " for " + millis + " ms");
  }

  private Optional<String> cutForLong() {
    synchronized (this) {
      if (longCut) {
        return Optional.empty();
      }
      longCut = true;
    }
    int millis =
        SHORTEST_LONG_CUT_MILLIS
            + random.nextInt(LONGEST_LONG_CUT_MILLIS - SHORTEST_LONG_CUT_MILLIS);
    Optional<String> hit =
        breakServer(parts.world().servers(), SoakServer::cut, this::healLongCut, millis);
    if (hit.isEmpty()) {
      longCutIsOver();
    }
    return hit;
  }

  private void healLongCut(SoakServer server) {
    server.heal();
    longCutIsOver();
  }

  private synchronized void longCutIsOver() {
    longCut = false;
  }

  private synchronized Optional<SoakServer> take(List<SoakServer> servers) {
    List<SoakServer> there = servers.stream().filter(Predicate.not(away::contains)).toList();
    long gone = away.stream().filter(parts.world().servers()::contains).count();
    boolean isServer = parts.world().servers().containsAll(servers);
    if (isServer && gone >= MOST_AWAY) {
      return Optional.empty();
    }
    Optional<SoakServer> chosen = SoakTargets.any(there, random);
    chosen.ifPresent(away::add);
    return chosen;
  }

  private synchronized void giveBack(SoakServer server) {
    away.remove(server);
  }

  private void repairLater(SoakServer server, Step breaks, Step repair, int millis) {
    inBackground(
        () -> {
          breaks.take(server);
          // What is broken for long is repaired early if all is to be calm.
          parts.calm().await(Duration.ofMillis(millis));
          repair.take(server);
          giveBack(server);
          parts.tally().note(server.name() + " is back");
          return null;
        });
  }

  private void stop(SoakServer server) {
    SoakWorld.stop(server).ifPresent(parts.tally()::violation);
  }

  private Optional<String> killTask() {
    return SoakTargets.any(parts.witness().living(), random)
        .filter(parts.witness()::kill)
        .map(Journal::toString);
  }

  private Optional<String> killSupervisor() {
    List<ProcessHandle> supervisors;
    try (Stream<ProcessHandle> processes = ProcessHandle.allProcesses()) {
      supervisors = processes.filter(this::supervises).toList();
    }
    return SoakTargets.any(supervisors, random)
        .filter(ProcessHandle::destroyForcibly)
        .map(process -> "process " + process.pid());
  }

  // Java itself shows only the beginning of long commands.
  private boolean supervises(ProcessHandle process) {
    try {
      String command = Files.readString(Path.of("/proc/" + process.pid() + "/cmdline"));
      return command.contains("berth.cli.Main\0supervise\0" + parts.world().folder());
    } catch (IOException e) {
      return false;
    }
  }

  private void cancelCluster() {
    boolean force = random.nextBoolean();
    parts
        .targets()
        .anyCluster(random)
        .ifPresent(
            name ->
                cancel(
                    Fault.CLUSTER_CANCELLED,
                    name,
                    force
                        ? List.of("cluster", "cancel", "--force", name)
                        : List.of("cluster", "cancel", name)));
  }

  private void cancelRun() {
    List<Journal> single =
        parts.witness().living().stream().filter(journal -> journal.task().equals("-")).toList();
    SoakTargets.any(single, random)
        .ifPresent(
            journal ->
                cancel(Fault.RUN_CANCELLED, journal.name(), List.of("cancel", journal.run())));
  }

  // It may be in vain: what it asks for may have ended, or its server be away.
  private void cancel(Fault fault, String name, List<String> words) {
    parts.targets().cancel(name);
    inBackground(
        () -> {
          SoakCommand command = parts.world().start(words.toArray(String[]::new));
          parts.await(command);
          if (command.exitCode() == 0) {
            count(fault, name);
          } else {
            parts.tally().note(words + " is in vain: " + command.err());
          }
          command.forget();
          return null;
        });
  }

  private void inBackground(Callable<Void> work) {
    repairs.execute(
        () -> {
          try {
            work.call();
          } catch (Exception | Error e) {
            parts.tally().violation("a fault could not be repaired: " + e);
          }
        });
  }
}
