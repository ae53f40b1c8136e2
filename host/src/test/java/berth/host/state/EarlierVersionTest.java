package berth.host.state;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Vitals;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EarlierVersionTest {
  private static final String OLD = "#Tue Nov 17 15:11:51 UTC 2026\nboot=b\nid=x\n";

  @TempDir Path state;

  @Test
  void whatGoesOnIsRefusedAndWhatIsOverIsNot() throws Exception {
    assertThatCode(() -> EarlierVersion.refuse(state.resolve("new"))).doesNotThrowAnyException();
    Path run = Files.createDirectories(state.resolve("runs/run-0123456789"));
    Files.writeString(run.resolve("state"), OLD + "phase=CLEANED\n");
    assertThatCode(() -> EarlierVersion.refuse(state)).doesNotThrowAnyException();

    Files.writeString(run.resolve("state"), OLD + "phase=RUNNING\n");
    assertThatThrownBy(() -> EarlierVersion.refuse(state))
        .isInstanceOf(BerthException.class)
        .hasMessageStartingWith(run.resolve("state") + " is of an earlier version");

    Files.delete(run.resolve("state"));
    Files.writeString(state.resolve("r-1.reservation"), OLD);
    assertThatThrownBy(() -> EarlierVersion.refuse(state)).isInstanceOf(BerthException.class);
  }

  @Test
  void recordsOfThisVersionAndGarbageAreNone() throws Exception {
    try (DurableFiles files = new DurableFiles(new Vitals())) {
      files.write(state.resolve("r-1.reservation"), OLD.getBytes(StandardCharsets.UTF_8));
    }
    Files.writeString(state.resolve("r-2.reservation"), "#\\u12 no properties");
    Files.writeString(state.resolve("r-3.reservation"), "");
    assertThatCode(() -> EarlierVersion.refuse(state)).doesNotThrowAnyException();
  }
}
