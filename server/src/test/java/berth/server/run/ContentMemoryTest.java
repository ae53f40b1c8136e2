package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ContentMemoryTest {
  private static final long ALL = 1 << 20;

  @Test
  void aCallerWhoFindsNoMemoryIsToldSoAfterAWhile() {
    ContentMemory memory = new ContentMemory(ALL, 1, Duration.ofMillis(10));
    Runnable giveBack = memory.take(ALL);

    refused(memory);

    giveBack.run();
    memory.takeSoon(1).run();
    memory.take(ALL).run();
  }

  @Test
  void noMoreCallersWaitThanMay() throws Exception {
    ContentMemory memory = new ContentMemory(ALL, 1, Duration.ofDays(1));
    Runnable giveBack = memory.take(ALL);
    CompletableFuture<Runnable> first = new CompletableFuture<>();
    Thread waiting = new Thread(() -> first.complete(memory.takeSoon(1)));
    waiting.start();
    while (waiting.getState() != Thread.State.TIMED_WAITING) {
      Thread.onSpinWait();
    }

    refused(memory);

    giveBack.run();
    first.get().run();
    memory.takeSoon(1).run();
  }

  private static void refused(ContentMemory memory) {
    assertThatThrownBy(() -> memory.takeSoon(1))
        .hasMessageStartingWith("the code of other runs fills the memory of this server")
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE));
  }
}
