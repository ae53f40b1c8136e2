package berth.server.run;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class WorkFilesTest {
  @TempDir private Path folder;
  private Path work;
  private Path outside;

  @BeforeEach
  void makeFiles() throws IOException {
    outside = Files.createDirectory(folder.resolve("outside"));
    Files.writeString(outside.resolve("secret"), "secret");
    work = Files.createDirectory(folder.resolve("work"));
    file("train.py", "code");
    file("model/a.h5", "a");
    file("model/b.h5", "b");
    file("model/log.txt", "log");
    file("model/deep/c.h5", "c");
    file("[x]", "brackets");
    Files.createSymbolicLink(work.resolve("out"), outside);
    Files.createSymbolicLink(work.resolve("model/secret"), outside.resolve("secret"));
  }

  @Test
  void putsFilesInPlaceOfFilesAndLinksAndMakesFolders() throws IOException {
    put("train.py", "new");
    put("model/deep/er/d.h5", "d");
    put("out", "no link");
    put("model/secret", "no link either");
    put("out2", "x");

    assertThat(work.resolve("train.py")).hasContent("new");
    assertThat(work.resolve("model/deep/er/d.h5")).hasContent("d");
    assertThat(work.resolve("model/deep/c.h5")).hasContent("c");
    assertThat(work.resolve("out")).isRegularFile().hasContent("no link");
    assertThat(Files.isSymbolicLink(work.resolve("model/secret"))).isFalse();
    assertThat(outside.resolve("secret")).hasContent("secret");
  }

  @Test
  void putsNothingThroughLinksOrWhereFilesAndFoldersAreInTheWay() throws IOException {
    Files.createSymbolicLink(work.resolve("inner"), Path.of("model"));
    Files.createSymbolicLink(work.resolve("nowhere"), outside.resolve("made"));

    assertNotPut("out/x", "out is not a folder");
    assertNotPut("out/deep/x", "out is not a folder");
    assertNotPut("inner/x", "inner is not a folder");
    assertNotPut("nowhere/x", "nowhere is not a folder");
    assertNotPut("model/a.h5/x", "model/a.h5 is not a folder");
    assertNotPut("model/deep", "there is a folder with that name");
    try (var files = Files.list(outside)) {
      assertThat(files).containsExactly(outside.resolve("secret"));
    }
    assertThat(work.resolve("model/x")).doesNotExist();
  }

  private void assertNotPut(String path, String why) {
    assertThatThrownBy(() -> put(path, "x"))
        .hasMessage("file '" + path + "' cannot be put beside the code: " + why)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID));
  }

  private void put(String path, String content) throws IOException {
    WorkFiles.put(work, path, content.getBytes(StandardCharsets.UTF_8));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "train.py | train.py",
        "./train.py | train.py",
        "*.py | train.py",
        "model/*.h5 | model/a.h5 model/b.h5",
        "model/?.h5 | model/a.h5 model/b.h5",
        "model/[b-z].h5 | model/b.h5",
        "model/[!b].h5 | model/a.h5",
        "*/*.txt | model/log.txt",
        "**/*.h5 | model/a.h5 model/b.h5 model/deep/c.h5",
        "**/c.h5 | model/deep/c.h5",
        "model/**/c.h5 | model/deep/c.h5",
        "*o*e*/a* | model/a.h5",
        "[x] | [x]",
        "out | out",
        "model/deep/ | model/deep/ model/deep/c.h5",
        "mod* | model/ model/a.h5 model/b.h5 model/log.txt model/secret model/deep/"
            + " model/deep/c.h5",
        ". | train.py out [x] model/ model/a.h5 model/b.h5 model/log.txt model/secret"
            + " model/deep/ model/deep/c.h5",
        "** | train.py out [x] model/ model/a.h5 model/b.h5 model/log.txt model/secret"
            + " model/deep/ model/deep/c.h5",
      })
  void packsWhatAPatternNames(String pattern, String names) throws IOException {
    assertThat(tar(pattern)).containsOnlyKeys(names.split(" "));
  }

  @Test
  void packsEachFileOnceForSeveralPatterns() throws IOException {
    assertThat(tar("model/a.h5", "model/*.h5", "model/deep", "**/c.h5"))
        .isEqualTo(
            Map.of(
                "model/a.h5", "a", "model/b.h5", "b", "model/deep/", "", "model/deep/c.h5", "c"));
  }

  @Test
  void packsLinksAsLinks() throws IOException {
    assertThat(tar("."))
        .containsEntry("out", "-> " + outside)
        .containsEntry("model/secret", "-> " + outside.resolve("secret"))
        .doesNotContainValue("secret");
  }

  @ParameterizedTest
  @ValueSource(strings = {"out/secret", "out/*", "*/secret/x", "missing", "model/*.pt", "**/d"})
  void tellsWhatIsNotThereAndWritesNothing(String pattern) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    assertThatThrownBy(() -> WorkFiles.tar(work, List.of("train.py", pattern), out))
        .hasMessage("there is no '" + pattern + "' in the working folder")
        .extracting("reason")
        .isEqualTo(Reason.NOT_FOUND);
    assertThat(out.size()).isZero();
  }

  @ParameterizedTest
  @ValueSource(strings = {"..", "../outside", "/etc/passwd", "model/../../outside", "/"})
  void refusesPatternsThatLeadOut(String pattern) {
    assertThatThrownBy(() -> tar("train.py", pattern))
        .hasMessage("the path '" + pattern + "' leads out of the working folder")
        .extracting("reason")
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void refusesAnEmptyPattern() {
    assertThatThrownBy(() -> tar(""))
        .hasMessage("a path is empty; the whole working folder is named '.'");
  }

  @Test
  @Timeout(20)
  void isNotKeptBusyByAPatternOfManyStars() throws IOException {
    file("a".repeat(250), "");
    String pattern = "*a".repeat(60) + "*b";
    assertThatThrownBy(() -> tar(pattern)).hasMessageStartingWith("there is no '*a*a");
  }

  @Test
  @Timeout(20)
  void leavesOutPipesAndSockets() throws Exception {
    Path pipe = work.resolve("pipe");
    assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
    try (ServerSocketChannel socket = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      socket.bind(UnixDomainSocketAddress.of(work.resolve("socket")));
      assertThat(tar(".")).containsKey("train.py").doesNotContainKeys("pipe", "socket");
    }
    assertThatThrownBy(() -> tar("pipe")).hasMessageStartingWith("there is no 'pipe'");
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 10, 500_000})
  void aFileThatChangesItsSizeWhileItIsReadBreaksNothing(int newSize) throws IOException {
    Path model = file("large/model", "x".repeat(300_000));
    file("large/other", "y".repeat(1000));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    OutputStream changing =
        new FilterOutputStream(out) {
          private boolean changed;

          @Override
          public void write(byte[] bytes, int offset, int length) throws IOException {
            out.write(bytes, offset, length);
            // Its size has been announced by now.
            if (!changed && new String(bytes, offset, length, UTF_8).contains("xxx")) {
              changed = true;
              Files.writeString(model, "z".repeat(newSize));
            }
          }
        };

    WorkFiles.tar(work, List.of("large"), changing);

    Map<String, String> packed = Tars.read(out.toByteArray());
    assertThat(packed).containsOnlyKeys("large/", "large/model", "large/other");
    assertThat(packed.get("large/model")).hasSize(300_000).startsWith("xxx");
    assertThat(packed.get("large/other")).isEqualTo("y".repeat(1000));
  }

  @Test
  @Timeout(60)
  void aProgramThatSwapsItsFilesAllTheTimeNeitherLeadsOutNorKeepsItWaiting() throws Exception {
    file("swap/a", "mine");
    Files.createDirectory(work.resolve("swap/folder"));
    Process swapping =
        new ProcessBuilder(
                "sh",
                "-c",
                "while :; do rm -rf a; mkfifo a; rm a; ln -s ../../outside/secret a; rm a; mkdir a;"
                    + " echo mine >a/b; rm -rf a; ln -s ../../outside a; rm a; echo mine >a; done")
            .directory(work.resolve("swap").toFile())
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try {
      for (int i = 0; i < 300; i++) {
        assertThat(tar("swap")).containsKey("swap/folder/").doesNotContainValue("secret");
      }
    } finally {
      swapping.destroyForcibly().waitFor();
    }
  }

  @Test
  void keepsModesTimesLongNamesAndForeignLetters() throws IOException {
    String name = "größe/" + "n".repeat(200) + "/" + "m".repeat(200);
    Path file = file(name, "x".repeat(200_000));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-x--x"));
    Files.setLastModifiedTime(file, FileTime.fromMillis(1_234_567_890_123L));
    Files.createSymbolicLink(work.resolve("far"), Path.of("t".repeat(250) + "/" + "u".repeat(250)));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    WorkFiles.tar(work, List.of(name, "far"), out);
    assertThat(Tars.read(out.toByteArray()))
        .containsEntry("far", "-> " + "t".repeat(250) + "/" + "u".repeat(250))
        .containsEntry(name, "x".repeat(200_000));
    try (var in = new TarArchiveInputStream(new ByteArrayInputStream(out.toByteArray()))) {
      TarArchiveEntry entry = in.getNextEntry();
      entry = entry.isSymbolicLink() ? in.getNextEntry() : entry;
      assertThat(entry.getMode()).isEqualTo(0751);
      assertThat(entry.getLastModifiedTime().toMillis()).isEqualTo(1_234_567_890_000L);
      assertThat(entry.getUserName()).isEmpty();
    }
  }

  @Test
  void packsAnEmptyFolderAndNothingOfNothing() throws IOException {
    Path empty = Files.createDirectory(folder.resolve("empty"));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    WorkFiles.tar(empty, List.of("."), out);
    assertThat(Tars.read(out.toByteArray())).isEmpty();
  }

  @Test
  void refusesAFolderThatBecameALink() throws IOException {
    Path link = Files.createSymbolicLink(folder.resolve("link"), outside);
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    assertThatThrownBy(() -> WorkFiles.tar(link, List.of("."), out))
        .isInstanceOf(IOException.class);
    assertThat(out.size()).isZero();
  }

  @Test
  void packsWhatABundleBrought() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    WorkFiles.tar(work, List.of("model/*.h5", "train.py"), out);
    Bundles bundles =
        new Bundles(
            folder.resolve("bundles"),
            new Bundles.Limits(1 << 20, 1 << 20, 1 << 30),
            Disks.roomy(folder),
            Disks.durable());
    String digest = Tars.sha256(out.toByteArray());
    try (Bundles.Upload upload = bundles.begin(digest)) {
      upload.write(ByteBuffer.wrap(out.toByteArray()));
      upload.finish();
    }
    bundles.unpack(digest, folder.resolve("again"));
    assertThat(folder.resolve("again/model/a.h5")).hasContent("a");
  }

  @Test
  void deletesAllAndFollowsNoLink() throws IOException {
    Files.setPosixFilePermissions(
        work.resolve("model/deep"), PosixFilePermissions.fromString("r-xr-xr-x"));
    Files.setPosixFilePermissions(
        work.resolve("model"), PosixFilePermissions.fromString("---------"));
    WorkFiles.delete(work);
    assertThat(work).doesNotExist();
    assertThat(outside.resolve("secret")).hasContent("secret");
    WorkFiles.delete(work);
    WorkFiles.delete(work.resolve("not/even/this"));
    Path link = Files.createSymbolicLink(work, outside);
    WorkFiles.delete(work);
    assertThat(Files.exists(link, LinkOption.NOFOLLOW_LINKS)).isFalse();
    assertThat(outside.resolve("secret")).hasContent("secret");
  }

  @Test
  void deletesFoldersThatAreDeeperThanAnyPath() throws IOException {
    nest(3000);
    assertThatThrownBy(() -> tar("."))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED))
        .hasMessageStartingWith(
            "the working folder has more than 100 folders inside of each other: 'ddd/");
    WorkFiles.delete(work);
    assertThat(work).doesNotExist();
  }

  @Test
  void givesFilesAndLinksToAUser() throws IOException {
    int uid = (int) Files.getAttribute(work, "unix:uid");
    // Only root can give files away; everyone else can at least give them to himself.
    int other = uid == 0 ? 12345 : uid;
    int gid = uid == 0 ? 54321 : (int) Files.getAttribute(work, "unix:gid");
    WorkFiles.own(work, other, gid);
    for (String name : List.of("", "train.py", "model", "model/deep/c.h5", "out", "model/secret")) {
      assertThat(
              Files.readAttributes(work.resolve(name), "unix:uid,gid", LinkOption.NOFOLLOW_LINKS))
          .as(name)
          .containsEntry("uid", other)
          .containsEntry("gid", gid);
    }
    assertThat(Files.getAttribute(outside.resolve("secret"), "unix:uid")).isEqualTo(uid);
  }

  private Path file(String name, String content) throws IOException {
    Path file = work.resolve(name);
    Files.createDirectories(file.getParent());
    return Files.writeString(file, content);
  }

  /** Makes folders from the inside out, for the path to the innermost would be too long. */
  private void nest(int depth) throws IOException {
    Path inner = Files.createDirectory(work.resolve("ddd"));
    for (int i = 0; i < depth; i++) {
      Path around = Files.createDirectory(work.resolve("around"));
      Files.move(inner, around.resolve("ddd"));
      Files.move(around, inner);
    }
  }

  private Map<String, String> tar(String... patterns) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    WorkFiles.tar(work, List.of(patterns), out);
    return Tars.read(out.toByteArray());
  }
}
