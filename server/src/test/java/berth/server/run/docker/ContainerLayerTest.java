package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ContainerLayerTest {
  @Test
  void isTheUpperFolderOfTheOverlayAtTheRoot() {
    assertThat(
            ContainerLayer.in(
                """
                overlay / overlay rw,relatime,lowerdir=/d/l/A:/d/l/B,upperdir=/d/x/diff,workdir=/d/x/work 0 0
                proc /proc proc rw,nosuid 0 0
                overlay /data overlay rw,upperdir=/other,workdir=/w 0 0
                """))
        .contains(Path.of("/d/x/diff"));
  }

  @Test
  void isUnknownWhereTheRootIsNoOverlay() {
    assertThat(ContainerLayer.in("/dev/vda / ext4 rw,relatime 0 0\n")).isEmpty();
    assertThat(ContainerLayer.in("overlay /data overlay rw,upperdir=/other 0 0\n")).isEmpty();
    assertThat(ContainerLayer.in("overlay / overlay ro,lowerdir=/a:/b 0 0\n")).isEmpty();
    assertThat(ContainerLayer.in("")).isEmpty();
  }
}
