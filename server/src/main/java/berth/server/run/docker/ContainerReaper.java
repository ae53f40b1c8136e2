package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.server.reservation.OtherServer;
import com.github.dockerjava.api.model.Container;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Removes containers that no server wants any more: those of runs that this one does not know, and
 * those of servers of this machine that are dead for long. One thread at a time may call.
 */
final class ContainerReaper {
  private static final Logger log = LoggerFactory.getLogger(ContainerReaper.class);

  private final EngineClient engine;
  private final String state;
  private final Duration reapAfter;
  private final Map<String, Instant> deadSince = new HashMap<>();

  /**
   * @param state the state folder of this server
   * @param reapAfter how long another server may be dead
   */
  ContainerReaper(EngineClient engine, String state, Duration reapAfter) {
    this.engine = engine;
    this.state = state;
    this.reapAfter = reapAfter;
  }

  /**
   * @param removeOwn removes what is left of a run of this server
   * @throws BerthException UNAVAILABLE if the engine does not answer
   */
  void reap(Predicate<String> knownRun, Consumer<String> removeOwn) {
    Consumer<String> removeOther = new RunContainers(engine)::remove;
    for (Container container : containersOfServers()) {
      Map<String, String> labels = container.getLabels() == null ? Map.of() : container.getLabels();
      String runId = labels.get(Recipe.RUN);
      String owner = labels.get(Recipe.STATE);
      if (runId == null || owner == null) {
        continue;
      }
      boolean own = owner.equals(state);
      if (own ? !knownRun.test(runId) : deadForLong(owner)) {
        log.warn("removing orphaned container of {} ({})", runId, labels.get(Recipe.SERVER));
        try {
          (own ? removeOwn : removeOther).accept(runId);
        } catch (BerthException e) {
          log.warn("cannot remove the container of {} now: {}", runId, e.getMessage());
        }
      }
    }
  }

  private List<Container> containersOfServers() {
    try {
      List<Container> found =
          engine.ask(
              () ->
                  engine
                      .commands()
                      .listContainersCmd()
                      .withShowAll(true)
                      .withLabelFilter(List.of(Recipe.SERVER))
                      .exec());
      // The library makes nothing of a "null" where a list or a container should be.
      return found == null ? List.of() : found.stream().filter(Objects::nonNull).toList();
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
  }

  // The lock on its state folder tells whether a server lives.
  private boolean deadForLong(String otherState) {
    if (!isPath(otherState) || !OtherServer.isDead(Path.of(otherState))) {
      deadSince.remove(otherState);
      return false;
    }
    Instant since = deadSince.computeIfAbsent(otherState, key -> Instant.now());
    return Duration.between(since, Instant.now()).compareTo(reapAfter) >= 0;
  }

  // Anyone can label a container.
  private static boolean isPath(String text) {
    try {
      return Path.of(text).isAbsolute();
    } catch (InvalidPathException e) {
      return false;
    }
  }
}
