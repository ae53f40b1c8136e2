package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class VitalsTest {
  private final Vitals vitals = new Vitals();

  @Test
  void goesOnAfterAnErrorAndSaysSoMeanwhile() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    CountDownLatch failed = new CountDownLatch(1);
    CountDownLatch repaired = new CountDownLatch(1);
    Thread thread =
        vitals.start(
            "worker",
            () -> {
              if (calls.incrementAndGet() == 1) {
                throw new StackOverflowError();
              }
              failed.countDown();
              repaired.await();
              return false;
            });
    failed.await();
    assertThat(vitals.problem()).hasValueSatisfying(p -> assertThat(p).contains("worker fails"));
    repaired.countDown();
    thread.join();
    assertThat(calls).hasValue(2);
    assertThat(vitals.problem()).isEmpty();
  }

  @Test
  void oneThatIsInterruptedHasEndedAsItShould() throws Exception {
    Thread thread =
        vitals.start(
            "waiter",
            () -> {
              new CountDownLatch(1).await();
              return true;
            });
    thread.interrupt();
    thread.join();
    assertThat(vitals.problem()).isEmpty();
  }
}
