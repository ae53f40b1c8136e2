package berth.server.run;

import berth.server.reservation.Reservation;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/**
 * What one run is to run. It is on disk, and is read, used and forgotten: it may be large, and all
 * runs share the memory for it.
 */
record RunContent(RunContext context, String runId, RunFolder folder) {

  /** Plans the launch of a run whose code is in its folder already. */
  Launch plan(Optional<Reservation> held) {
    List<Launch.Bind> binds = binds();
    return use(whole -> context.planner().plan(runId, folder, whole, binds, held));
  }

  /**
   * Brings the code into the run's folder, and plans its launch. What takes long, such as a mount
   * that hangs or a large bundle, does so without the content in memory.
   */
  Launch bring(RequestedRun.Code code, Optional<Reservation> held) {
    try {
      folder.createForProgram();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    List<Launch.Bind> binds = binds();
    if (code instanceof RequestedRun.Code.Bundle bundle) {
      context.planner().bringBundle(folder, bundle);
    }
    Launch launch =
        use(
            whole -> {
              Launch planned = context.planner().plan(runId, folder, whole, binds, held);
              context.planner().bringFiles(folder, whole);
              return planned;
            });
    context.planner().handOver(launch);
    return launch;
  }

  private List<Launch.Bind> binds() {
    return context.planner().binds(use(RequestedRun::mounts));
  }

  private <T> T use(Function<RequestedRun, T> user) {
    Runnable giveBack = context.memory().take(context.store().contentBytes(folder));
    try {
      return user.apply(context.store().whole(folder));
    } finally {
      giveBack.run();
    }
  }
}
