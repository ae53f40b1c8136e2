package berth.server.run;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/** Runs what another one runs, and fails where it is told to. */
final class FaultyRuntime implements Runtime {
  private final Runtime real;
  final AtomicInteger creations = new AtomicInteger();
  final AtomicInteger removals = new AtomicInteger();
  final AtomicInteger reaps = new AtomicInteger();
  volatile Optional<RuntimeException> creationFails = Optional.empty();
  volatile Optional<RuntimeException> startFails = Optional.empty();
  volatile Optional<RuntimeException> removalFails = Optional.empty();
  volatile Runnable reaping = () -> {};

  FaultyRuntime(Runtime real) {
    this.real = real;
  }

  private static void fail(Optional<RuntimeException> failure) {
    failure.ifPresent(
        why -> {
          throw why;
        });
  }

  @Override
  public Info info() {
    return real.info();
  }

  @Override
  public Optional<String> problem() {
    return real.problem();
  }

  @Override
  public void check(Launch launch) {
    real.check(launch);
  }

  @Override
  public Created create(Launch launch, Progress progress) throws InterruptedException {
    creations.incrementAndGet();
    fail(creationFails);
    return real.create(launch, progress);
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
    fail(startFails);
    return real.start(launch);
  }

  @Override
  public Exit await(String runId) throws InterruptedException {
    return real.await(runId);
  }

  @Override
  public void signal(String runId, String signal) {
    real.signal(runId, signal);
  }

  @Override
  public OptionalLong peakMemory(String runId) {
    return real.peakMemory(runId);
  }

  @Override
  public void remove(String runId) {
    removals.incrementAndGet();
    fail(removalFails);
    real.remove(runId);
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    reaps.incrementAndGet();
    reaping.run();
    real.reap(knownRun);
  }

  @Override
  public void close() {
    real.close();
  }
}
