package berth.server.run;

import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/** Runs what another one runs, and fails where it is told to. */
final class FaultyRuntime extends ForwardingRuntime {
  final AtomicInteger creations = new AtomicInteger();
  final AtomicInteger removals = new AtomicInteger();
  final AtomicInteger reaps = new AtomicInteger();
  volatile Optional<RuntimeException> creationFails = Optional.empty();
  volatile Optional<RuntimeException> startFails = Optional.empty();
  volatile Optional<RuntimeException> removalFails = Optional.empty();
  volatile Runnable reaping = () -> {};

  FaultyRuntime(RunEngine real) {
    super(real);
  }

  private static void fail(Optional<RuntimeException> failure) {
    failure.ifPresent(
        why -> {
          throw why;
        });
  }

  @Override
  public Created create(Launch launch, Progress progress) throws InterruptedException {
    creations.incrementAndGet();
    fail(creationFails);
    return super.create(launch, progress);
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
    fail(startFails);
    return super.start(launch);
  }

  @Override
  public void remove(String runId) {
    removals.incrementAndGet();
    fail(removalFails);
    super.remove(runId);
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    reaps.incrementAndGet();
    reaping.run();
    super.reap(knownRun);
  }
}
