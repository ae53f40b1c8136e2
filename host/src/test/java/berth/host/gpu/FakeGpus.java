package berth.host.gpu;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Queue;

/** A source of whatever a test says. */
public final class FakeGpus implements GpuSource {
  private GpuReading reading = GpuReading.unreadable("nothing said yet");
  private Optional<RuntimeException> failure = Optional.empty();
  private final Queue<Xid> xids = new ArrayDeque<>();
  private Runnable whileReading = () -> {};

  public static Gpu gpu(int index, String uuid, GpuHealth.State state, String reason) {
    return Gpu.silent(
        index, uuid, Optional.empty(), Optional.empty(), new GpuHealth(state, reason));
  }

  public static Gpu healthy(int index, String uuid) {
    return gpu(index, uuid, GpuHealth.State.HEALTHY, "");
  }

  public static Gpu lost(int index, String uuid) {
    return gpu(index, uuid, GpuHealth.State.LOST, "lost");
  }

  /** One that answers, with the driver's word. */
  public static Gpu needing(int index, String uuid, RecoveryAction word) {
    return Gpu.silent(
        index, uuid, Optional.empty(), Optional.empty(), GpuHealth.answering(Optional.of(word)));
  }

  public FakeGpus reports(Gpu... gpus) {
    return reports("1", gpus);
  }

  public FakeGpus reports(String driverVersion, Gpu... gpus) {
    failure = Optional.empty();
    reading =
        new GpuReading(
            Optional.of(driverVersion),
            Optional.empty(),
            Optional.empty(),
            Arrays.asList(gpus),
            List.of());
    return this;
  }

  public void reportsProblem(String problem) {
    reading = GpuReading.unreadable(problem);
  }

  public void reportsXid(String uuid, int code) {
    xids.add(new Xid(uuid, code));
  }

  public void fails(RuntimeException with) {
    failure = Optional.of(with);
  }

  /** Runs {@code action} in the middle of every reading, as if the driver were slow. */
  public void whileReading(Runnable action) {
    whileReading = action;
  }

  @Override
  public boolean simulated() {
    return true;
  }

  @Override
  public GpuReading read() {
    whileReading.run();
    failure.ifPresent(
        exception -> {
          throw exception;
        });
    return reading;
  }

  @Override
  public Optional<Xid> awaitXid(Duration timeout) {
    failure.ifPresent(
        exception -> {
          throw exception;
        });
    return Optional.ofNullable(xids.poll());
  }

  @Override
  public void close() {}
}
