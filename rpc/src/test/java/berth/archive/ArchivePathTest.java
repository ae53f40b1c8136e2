package berth.archive;

import static berth.archive.ArchivePath.Escape.ABSOLUTE;
import static berth.archive.ArchivePath.Escape.UPWARD;
import static berth.archive.ArchivePath.Escape.UPWARD_LATER;
import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class ArchivePathTest {
  @Test
  void leavesOutWhatChangesNothing() {
    assertThat(ArchivePath.parts("./a//b/./c/")).containsExactly("a", "b", "c");
    assertThat(ArchivePath.parts("./")).isEmpty();
    assertThat(ArchivePath.parts("")).isEmpty();
  }

  @Test
  void aNameLeadsOutFromTheRootAndByAnyStepUp() {
    assertThat(ArchivePath.escape("/etc/passwd")).contains(ABSOLUTE);
    assertThat(ArchivePath.escape("..")).contains(UPWARD);
    assertThat(ArchivePath.escape("a/../b")).contains(UPWARD);
    assertThat(ArchivePath.escape("a/..b/c..")).isEmpty();
  }

  @Test
  void aLinkMayStepUpAtItsBeginningAsFarAsItLiesDeep() {
    assertThat(ArchivePath.escapeOfLink("../../a", 2)).isEmpty();
    assertThat(ArchivePath.escapeOfLink("./..//../a", 2)).isEmpty();
    assertThat(ArchivePath.escapeOfLink("../../a", 1)).contains(UPWARD);
    assertThat(ArchivePath.escapeOfLink("a/../b", 2)).contains(UPWARD_LATER);
    assertThat(ArchivePath.escapeOfLink("../a/..", 2)).contains(UPWARD_LATER);
    assertThat(ArchivePath.escapeOfLink("/a", 2)).contains(ABSOLUTE);
  }
}
