package berth.e2e.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A soak of a few seconds; {@code scripts/soak.sh} runs one for as long as you like. */
class SoakTest {
  @TempDir private Path folder;

  @Test
  @Timeout(600)
  void whateverIsBrokenAllEndsAsItShouldAndNothingIsLeft() throws Exception {
    long seed = new Random().nextLong();
    System.out.println("Soaking for 8 s, seed " + seed);

    Soak.Result result =
        new Soak(folder.toRealPath(), Duration.ofSeconds(8), seed, Pace.BRIEF).run();

    System.out.print(result.tally().report());
    assertThat(result.tally().violations()).as("with seed %d", seed).isEmpty();
    assertThat(result.left()).as("with seed %d", seed).isEmpty();
    assertThat(result.tally().clusters()).isPositive();
    assertThat(result.tally().runs()).isPositive();
    assertThat(result.tally().allFaults()).isPositive();
  }
}
