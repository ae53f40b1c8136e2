package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MountRulesTest {
  @TempDir private Path temporary;
  private Path root;
  private Path data;
  private Path scratch;
  private MountRules rules;

  @BeforeEach
  void makeFolders() throws IOException {
    root = temporary.toRealPath();
    data = Files.createDirectories(root.resolve("data/sets")).getParent();
    scratch = Files.createDirectories(root.resolve("scratch/me")).getParent();
    Files.createDirectory(root.resolve("secret"));
    rules = MountRules.parse(List.of(data + ":ro", scratch.toString()));
  }

  @Test
  void allowsFoldersBelowThoseOfTheAdministrator() {
    assertThat(rules.check(data, true)).isEqualTo(data);
    assertThat(rules.check(data.resolve("sets"), true)).isEqualTo(data.resolve("sets"));
    assertThat(rules.check(scratch.resolve("me"), true)).isEqualTo(scratch.resolve("me"));
    assertThat(rules.check(scratch.resolve("me"), false)).isEqualTo(scratch.resolve("me"));
    assertThat(MountRules.parse(List.of("/:rw")).check(data, false)).isEqualTo(data);
    assertThat(MountRules.parse(List.of(data + ":rw")).check(data, false)).isEqualTo(data);
  }

  @Test
  void deniesAllOthers() throws IOException {
    Files.createDirectory(root.resolve("scratch2"));
    for (String name : new String[] {"secret", "", "scratch2", "scratch/../secret", "missing"}) {
      Path source = root.resolve(name);
      assertThatThrownBy(() -> rules.check(source, true))
          .hasMessage(
              "mount of %s asked, the administrator allows %s (read only), %s",
              source, data, scratch)
          .extracting("reason")
          .isEqualTo(Reason.DENIED);
    }
    assertThatThrownBy(() -> MountRules.parse(List.of()).check(data, true))
        .hasMessage("mount of " + data + " asked, the administrator allows none");
  }

  @Test
  void deniesWritingWhereOnlyReadingIsAllowed() {
    assertThatThrownBy(() -> rules.check(data.resolve("sets"), false))
        .hasMessage(
            "mount of %s to write to asked, the administrator allows %s (read only), %s",
            data.resolve("sets"), data, scratch)
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void followsLinksBeforeItDecides() throws IOException {
    Path out = Files.createSymbolicLink(scratch.resolve("out"), root.resolve("secret"));
    assertThatThrownBy(() -> rules.check(out, true)).extracting("reason").isEqualTo(Reason.DENIED);
    Path in = Files.createSymbolicLink(root.resolve("in"), scratch.resolve("me"));
    assertThat(rules.check(in, false)).isEqualTo(scratch.resolve("me"));
    Path readOnly = Files.createSymbolicLink(scratch.resolve("sets"), data.resolve("sets"));
    assertThatThrownBy(() -> rules.check(readOnly, false))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    Path alias = Files.createSymbolicLink(root.resolve("alias"), scratch);
    assertThat(MountRules.parse(List.of(alias.toString())).check(alias.resolve("me"), false))
        .isEqualTo(scratch.resolve("me"));
    assertThatThrownBy(
            () -> MountRules.parse(List.of(alias + "")).check(alias.resolve("missing"), true))
        .hasMessageContaining("there is no such folder");
    // Two names of one folder: the stricter rule counts, in whichever order they stand.
    for (List<String> both :
        List.of(List.of(alias + ":ro", scratch + ""), List.of(scratch + ":ro", alias + ""))) {
      assertThatThrownBy(() -> MountRules.parse(both).check(alias, false))
          .extracting("reason")
          .isEqualTo(Reason.DENIED);
    }
  }

  @Test
  void letsTheMostSpecificRuleDecide() {
    MountRules open = MountRules.parse(List.of(data + ":ro", data.resolve("sets") + ":rw"));
    assertThat(open.check(data.resolve("sets"), false)).isEqualTo(data.resolve("sets"));
    MountRules closed = MountRules.parse(List.of(data + ":rw", data.resolve("sets") + ":ro"));
    assertThatThrownBy(() -> closed.check(data.resolve("sets"), false))
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    assertThat(closed.check(data.resolve("sets"), true)).isEqualTo(data.resolve("sets"));
  }

  @Test
  void deniesWritingToAFolderAroundOneThatMayOnlyBeRead() {
    Path sets = data.resolve("sets");
    MountRules closed = MountRules.parse(List.of(data + ":rw", sets + ":ro"));
    assertThat(closed.check(data, true)).isEqualTo(data);
    assertThatThrownBy(() -> closed.check(data, false))
        .hasMessage(
            "mount of %s to write to, with %s inside asked, the administrator allows %s, %s (read"
                + " only)",
            data, sets, data, sets)
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
  }

  @Test
  void refusesWhatIsNoFolder() throws IOException {
    assertThatThrownBy(() -> rules.check(Path.of("data"), true))
        .hasMessage("mount of 'data' asked, which is not an absolute path")
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
    Path file = Files.createFile(scratch.resolve("file"));
    for (Path source : new Path[] {scratch.resolve("missing"), file}) {
      assertThatThrownBy(() -> rules.check(source, true))
          .hasMessage("mount of " + source + " asked, there is no such folder on this server")
          .extracting("reason")
          .isEqualTo(Reason.INVALID);
    }
  }

  @Test
  void knowsRulesForFoldersThatAreNotThereYet() throws IOException {
    Path later = root.resolve("later");
    MountRules known = MountRules.parse(List.of(later.toString()));
    assertThatThrownBy(() -> known.check(data, true)).extracting("reason").isEqualTo(Reason.DENIED);
    Files.createDirectory(later);
    assertThat(known.check(later, false)).isEqualTo(later);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "data", ":ro", "/data:r", "/a:b:ro", "~/x"})
  void refusesRulesThatAreNone(String entry) {
    assertThatThrownBy(() -> MountRules.parse(List.of(entry)))
        .hasMessage(
            "'" + entry + "' is not an absolute folder for mounts such as /data or /data:ro")
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void refusesTwoRulesForOneFolder() {
    assertThatThrownBy(() -> MountRules.parse(List.of("/data:ro", "/data/")))
        .hasMessage("the folder /data for mounts is given twice");
  }
}
