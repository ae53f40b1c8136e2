package berth.server.run.docker;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.github.dockerjava.api.command.InspectContainerResponse;
import com.github.dockerjava.api.exception.ConflictException;
import com.github.dockerjava.api.exception.NotFoundException;
import java.util.Optional;

/** The containers of runs, by the name that is made of a run's id. Any thread may call. */
record RunContainers(EngineClient engine) {
  static String name(String runId) {
    return "berth-" + runId;
  }

  /**
   * Now or not at all.
   *
   * @throws NotFoundException if there is none
   */
  InspectContainerResponse inspect(String runId) {
    return engine.ask(() -> engine.commands().inspectContainerCmd(name(runId)).exec());
  }

  /** Empty if there is none; waits through a restart of the engine. */
  Optional<InspectContainerResponse> find(String runId) throws InterruptedException {
    try {
      return Optional.of(
          engine.asking(() -> engine.commands().inspectContainerCmd(name(runId)).exec()));
    } catch (NotFoundException e) {
      return Optional.empty();
    }
  }

  /** Its first process; empty if it has ended, or the engine is away. */
  Optional<Integer> processOf(String runId) {
    try {
      return processOf(inspect(runId));
    } catch (RuntimeException e) {
      return Optional.empty();
    }
  }

  static Optional<Integer> processOf(InspectContainerResponse container) {
    return Optional.ofNullable(container.getState())
        .map(InspectContainerResponse.ContainerState::getPidLong)
        .filter(pid -> pid > 0)
        .map(Long::intValue);
  }

  /**
   * Removes one with its volumes, if there is one.
   *
   * @throws BerthException UNAVAILABLE
   */
  void remove(String runId) {
    try {
      engine.order(
          () ->
              engine
                  .commands()
                  .removeContainerCmd(name(runId))
                  .withForce(true)
                  .withRemoveVolumes(true)
                  .exec());
    } catch (NotFoundException e) {
      // There is none.
    } catch (ConflictException e) {
      // Another client removes it in this moment.
      throw new BerthException(Reason.UNAVAILABLE, EngineClient.text(e), e);
    } catch (RuntimeException e) {
      throw engine.unreachable(e);
    }
  }
}
