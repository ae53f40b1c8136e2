package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StateDiskTest {
  @TempDir Path folder;

  @Test
  void knowsTheSizeOfTheDiskOfAFolder() throws IOException {
    StateDisk.Space space = StateDisk.space(folder);
    assertThat(space.total()).isEqualTo(Files.getFileStore(folder).getTotalSpace());
    assertThat(space.free()).isBetween(1L, space.total());
  }

  @Test
  void refusesSomethingNewIfTooLittleIsLeft() {
    var disk = new StateDisk("gpu01", folder, Optional.of(Long.MAX_VALUE));
    assertThatThrownBy(() -> disk.check("the run"))
        .isInstanceOf(BerthException.class)
        .hasMessageStartingWith("the run is refused: gpu01 has ");
    assertThat(disk.isShort()).isTrue();
  }

  @Test
  void takesSomethingNewIfEnoughIsLeft() {
    var disk = new StateDisk("gpu01", folder, Optional.of(1L));
    assertThatCode(() -> disk.check("the run")).doesNotThrowAnyException();
    assertThat(disk.isShort()).isFalse();
  }

  @Test
  void saysSoIfItCannotLookAtTheDisk() {
    Path missing = folder.resolve("missing");
    var disk = new StateDisk("gpu01", missing, Optional.empty());
    assertThatThrownBy(() -> disk.check("the run"))
        .isInstanceOf(BerthException.class)
        .hasMessage("cannot look at the disk of " + missing);
    assertThat(disk.isShort()).isTrue();
  }
}
