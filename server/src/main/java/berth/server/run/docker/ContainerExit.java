package berth.server.run.docker;

import berth.server.run.RunEngine.Exit;
import com.github.dockerjava.api.async.ResultCallback;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.command.InspectContainerResponse.ContainerState;
import com.github.dockerjava.api.command.WaitContainerResultCallback;
import com.github.dockerjava.api.exception.NotFoundException;
import com.github.dockerjava.api.model.Event;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Waits for containers to end, and finds out why each did: by itself, out of memory, or stopped
 * with its engine. Any thread may call; one waits for each container.
 */
final class ContainerExit {
  private static final Logger log = LoggerFactory.getLogger(ContainerExit.class);
  private static final Duration EVENTS_BACK = Duration.ofSeconds(60);
  // How long after the end of a container its events may come: whole seconds are all that every
  // engine understands, so it is between this and one less.
  private static final Duration EVENTS_AHEAD = Duration.ofSeconds(2);
  // By SIGKILL, or by SIGTERM.
  private static final int SIGKILLED = 137;
  private static final Set<Integer> KILLED = Set.of(SIGKILLED, 143);
  // What an engine reports that was restarted and cannot find out how a program ended.
  private static final int UNKNOWN = 255;

  static final String REMOVED = "its container was removed outside of Berth";

  private final EngineClient engine;
  private final RunContainers containers;
  private final OutOfMemoryKills kills;
  private final Set<String> startedHere = ConcurrentHashMap.newKeySet();
  private final Set<String> signalled = ConcurrentHashMap.newKeySet();

  ContainerExit(EngineClient engine, OutOfMemoryKills kills) {
    this.engine = engine;
    this.kills = kills;
    containers = new RunContainers(engine);
  }

  /** This process has started it, so it ends when the engine says so, not earlier. */
  void startedHere(String runId) {
    startedHere.add(runId);
  }

  /** Berth sends it a signal. */
  void signalled(String runId) {
    signalled.add(runId);
  }

  void forget(String runId) {
    startedHere.remove(runId);
    signalled.remove(runId);
  }

  /** Waits for the end, also through outages of the engine. */
  Exit await(String runId) throws InterruptedException {
    boolean outage = false;
    while (true) {
      try (WaitContainerResultCallback callback = new WaitContainerResultCallback()) {
        if (outage) {
          // Each wait keeps a thread and a connection for as long as the engine hangs.
          containers.inspect(runId);
        }
        // An engine that says nothing for long must at least say that the program runs.
        boolean over =
            engine
                .commands()
                .waitContainerCmd(RunContainers.name(runId))
                .exec(callback)
                .awaitCompletion(engine.silence().toMillis(), TimeUnit.MILLISECONDS);
        if (over && callback.awaitStatusCode() == 0 && !outage && startedHere.contains(runId)) {
          // Just now. Of what an earlier daemon started only the engine knows when.
          return new Exit(0, false, Optional.empty(), "");
        }
        InspectContainerResponse container = containers.inspect(runId);
        if (!Boolean.TRUE.equals(container.getState().getRunning())) {
          return outage ? afterOutage(container) : decide(runId, container);
        }
      } catch (NotFoundException e) {
        return new Exit(0, false, Optional.empty(), REMOVED);
      } catch (IOException | RuntimeException e) {
        if (e.getCause() instanceof InterruptedException) {
          throw new InterruptedException();
        }
        // An engine that does not answer is not a program that has ended.
        if (!outage) {
          log.warn("lost the Docker engine while {} runs: {}", runId, EngineClient.text(e));
          outage = true;
        }
      }
      Thread.sleep(engine.retry().toMillis());
    }
  }

  private static Exit afterOutage(InspectContainerResponse container) {
    Exit exit = exit(container.getState());
    return KILLED.contains(exit.code()) || exit.code() == UNKNOWN
        ? exit.lostBecause("the Docker engine went down, and the container with it")
        : exit;
  }

  // The state of a container tells too little of one that was killed. An engine that is shut down
  // stops its containers first, and answers as if they had ended by themselves. And one that hears
  // of the end before it hears of the lack of memory never sets OOMKilled. But its events tell, and
  // if it never hears of it, the kernel does.
  private Exit decide(String runId, InspectContainerResponse container)
      throws InterruptedException {
    Exit exit = exit(container.getState());
    if (!KILLED.contains(exit.code()) || exit.outOfMemory() || signalled.contains(runId)) {
      return exit;
    }
    Set<String> events = lastEvents(container.getId());
    if (events.contains("oom")) {
      return new Exit(exit.code(), true, exit.at(), "");
    }
    if (events.contains("kill")) {
      return exit.lostBecause("the container was stopped by the Docker engine, not by Berth");
    }
    // Neither Berth nor the engine killed it; the kernel did kill something just then.
    return exit.code() == SIGKILLED && kills.since(runId)
        ? new Exit(exit.code(), true, exit.at(), "")
        : exit;
  }

  /** Which of "kill" and "oom" there were lately. The engine notes both after the deed. */
  private Set<String> lastEvents(String containerId) throws InterruptedException {
    Set<String> seen = ConcurrentHashMap.newKeySet();
    long now = Instant.now().getEpochSecond();
    try (ResultCallback.Adapter<Event> events =
        new ResultCallback.Adapter<>() {
          @Override
          public void onNext(Event event) {
            String action = event == null ? null : event.getAction();
            if (action != null) {
              seen.add(action);
            }
            if (seen.contains("oom")) {
              // Nothing else matters.
              onComplete();
            }
          }
        }) {
      engine
          .commands()
          .eventsCmd()
          .withContainerFilter(containerId)
          .withEventFilter("kill", "oom")
          .withSince(Long.toString(now - EVENTS_BACK.toSeconds()))
          .withUntil(Long.toString(now + EVENTS_AHEAD.toSeconds()))
          .exec(events)
          .awaitCompletion(EVENTS_BACK.toSeconds(), TimeUnit.SECONDS);
    } catch (IOException e) {
      log.debug("cannot close the events of {}", containerId, e);
    }
    return seen;
  }

  private static Exit exit(ContainerState state) {
    int code = state.getExitCodeLong() == null ? 0 : state.getExitCodeLong().intValue();
    Optional<Instant> at = Optional.empty();
    try {
      at =
          Optional.ofNullable(state.getFinishedAt())
              .map(Instant::parse)
              .filter(i -> i.isAfter(Instant.EPOCH));
    } catch (DateTimeParseException e) {
      // The engine does not know.
    }
    return new Exit(code, Boolean.TRUE.equals(state.getOOMKilled()), at, "");
  }
}
