package berth.server.run;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Predicate;

/** Does what another runtime does. Tests replace the steps that are to go wrong. */
abstract class ForwardingRuntime implements RunEngine {
  private final RunEngine real;

  ForwardingRuntime(RunEngine real) {
    this.real = real;
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
    return real.create(launch, progress);
  }

  @Override
  public Running start(Launch launch) throws InterruptedException {
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
  public DiskShare diskShare(String runId) {
    return real.diskShare(runId);
  }

  @Override
  public void remove(String runId) {
    real.remove(runId);
  }

  @Override
  public void reap(Predicate<String> knownRun) {
    real.reap(knownRun);
  }

  @Override
  public void close() {
    real.close();
  }
}
