package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class SimilarNameTest {
  private static final List<String> NAMES = List.of("shell", "tensorflow", "tf", "caffe");

  @Test
  void findsWhatWasMistyped() {
    assertThat(SimilarName.to("shel", NAMES)).contains("shell");
    assertThat(SimilarName.to("Tensorlfow", NAMES)).contains("tensorflow");
    assertThat(SimilarName.to("tg", NAMES)).contains("tf");
  }

  @Test
  void doesNotGuessWhatIsSomethingElse() {
    assertThat(SimilarName.to("pytorch", NAMES)).isEmpty();
    assertThat(SimilarName.to("x", NAMES)).isEmpty();
    assertThat(SimilarName.to("shell".repeat(100), NAMES)).isEmpty();
  }
}
