package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.TarUnpacker.Unpacked;
import berth.client.spec.Program;
import berth.rpc.BerthException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.apache.commons.compress.archivers.tar.TarConstants;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Packing folders and unpacking what others packed. */
class TarTest {
  private static final TarUnpacker.Limits LIMITS = new TarUnpacker.Limits(10_000, 20, 5);

  @TempDir private Path folder;
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
  private final TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes, "UTF-8");
  private Path target;

  @BeforeEach
  void makeTarget() throws IOException {
    target = Files.createDirectory(folder.resolve("target"));
  }

  @Test
  void theSameFilesGiveTheSameBytesWheneverAndInWhateverOrderTheyWereMade() throws Exception {
    Path one = project("one", "b.py", "a/c.py", "a.py");
    Path two = project("two", "a.py", "a/c.py", "b.py");
    Files.setLastModifiedTime(two.resolve("a.py"), FileTime.fromMillis(1));
    Path first = folder.resolve("first.tar");
    Path second = folder.resolve("second.tar");

    String digest = TarPacker.pack(one, first);

    assertThat(TarPacker.pack(two, second)).isEqualTo(digest);
    assertThat(second).hasSameBinaryContentAs(first);
    assertThat(HexFormat.of().formatHex(sha256(Files.readAllBytes(first)))).isEqualTo(digest);
  }

  @Test
  void anotherModeIsAnotherBundle() throws Exception {
    Path one = project("one", "a.py");
    String before = TarPacker.pack(one, folder.resolve("t.tar"));
    Files.setPosixFilePermissions(
        one.resolve("a.py"), PosixFilePermissions.fromString("rwx------"));

    assertThat(TarPacker.pack(one, folder.resolve("t.tar"))).isNotEqualTo(before);
  }

  @Test
  void packsAllButGitAndKeepsLinksModesAndLongNames() throws Exception {
    String deep = "very-long-name-".repeat(10) + "/" + "päckchen-".repeat(12) + ".py";
    Path one = project("one", "a.py", ".git/config", "sub/.git", deep);
    Files.createDirectory(one.resolve("empty"));
    Files.createSymbolicLink(one.resolve("link"), Path.of("a.py"));
    Files.setPosixFilePermissions(
        one.resolve("a.py"), PosixFilePermissions.fromString("rwxr-x---"));
    Path packed = folder.resolve("t.tar");
    TarPacker.pack(one, packed);

    TarUnpacker.unpack(Files.newInputStream(packed), target, name -> name, LIMITS);

    try (Stream<Path> below = Files.walk(target)) {
      assertThat(below.map(path -> target.relativize(path).toString()))
          .containsExactlyInAnyOrder("", "a.py", "sub", "empty", "link", deep.split("/")[0], deep);
    }
    assertThat(Files.readSymbolicLink(target.resolve("link"))).isEqualTo(Path.of("a.py"));
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(target.resolve("a.py"))))
        .isEqualTo("rwxr-x---");
    assertThat(target.resolve(deep)).hasContent(deep);
  }

  @Test
  void aBundleIsTheSameAfterAClusterHasWrittenItsLogs() throws Exception {
    Path one = project("one", "a.py", "sub/b.py");
    String before = TarPacker.pack(one, folder.resolve("t.tar"));
    Path logs = Files.createDirectories(one.resolve("berth-logs/mnist-20261118-121707"));
    Files.writeString(logs.resolve("worker-0.log"), "step 1");

    assertThat(TarPacker.pack(one, folder.resolve("t.tar"))).isEqualTo(before);
  }

  @Test
  void packsNothingThatItsIgnoreFileNamesAndRepacksTheSame() throws Exception {
    Path one = project("one", "a.py", "data/big.bin", "model.h5", "keep/model.h5");
    Files.writeString(one.resolve(".berthignore"), "# big\n/data/\n*.h5\n!/keep/*.h5\n");
    Path packed = folder.resolve("t.tar");
    String digest = TarPacker.pack(one, packed);

    TarUnpacker.unpack(Files.newInputStream(packed), target, name -> name, LIMITS);

    try (Stream<Path> below = Files.walk(target)) {
      assertThat(below.map(path -> target.relativize(path).toString()))
          .containsExactlyInAnyOrder("", ".berthignore", "a.py", "keep", "keep/model.h5");
    }
    assertThat(TarPacker.pack(target, folder.resolve("again.tar"))).isEqualTo(digest);
  }

  @Test
  void aScriptThatIsLeftOutIsRefused() throws Exception {
    Path one = project("one", "sub/train.py");
    Files.writeString(one.resolve(".berthignore"), "sub/\n");
    Program program =
        new Program(List.of("./sub/train.py"), false, java.util.Optional.of(one), List.of());

    assertThatThrownBy(() -> program.check(""))
        .hasMessage(
            "the script ./sub/train.py is not uploaded: "
                + one.resolve(".berthignore")
                + " leaves it out");
  }

  @Test
  void saysThatAFolderToBundleIsNone() {
    assertThatThrownBy(() -> TarPacker.pack(folder.resolve("none"), folder.resolve("t.tar")))
        .hasMessage("cannot bundle " + folder.resolve("none") + ": no such folder");
  }

  @ParameterizedTest
  @ValueSource(strings = {"../evil", "/evil", "a/../../evil", "..", "a/.."})
  void unpacksNothingOutside(String name) throws Exception {
    add(name, "evil");

    assertThatThrownBy(this::unpack)
        .isInstanceOf(BerthException.class)
        .hasMessage("will not unpack '" + name + "': it lies outside of the folder");
    assertThat(folder.resolve("evil")).doesNotExist();
    assertThat(target).isEmptyDirectory();
  }

  @Test
  void writesNothingThroughALinkOfTheTar() throws Exception {
    Files.createDirectory(target.resolve("inside"));
    link("door", "inside");
    add("door/file", "evil");

    assertThatThrownBy(this::unpack).hasMessageContaining("door: it is a link");
    assertThat(target.resolve("inside")).isEmptyDirectory();
  }

  @Test
  void writesNothingThroughALinkThatWasThere() throws Exception {
    Path elsewhere = Files.createDirectory(folder.resolve("elsewhere"));
    Path precious = Files.writeString(elsewhere.resolve("precious"), "precious");
    Files.createSymbolicLink(target.resolve("door"), elsewhere);
    Files.createSymbolicLink(target.resolve("file"), precious);
    add("file", "new");
    add("door/precious", "evil");

    assertThatThrownBy(this::unpack).hasMessageContaining("door: it is a link");
    assertThat(precious).hasContent("precious");
    assertThat(Files.isSymbolicLink(target.resolve("file"))).isFalse();
    assertThat(target.resolve("file")).hasContent("new");
  }

  @ParameterizedTest
  @CsvSource({
    "a, b, true",
    "d/a, ../b, true",
    "d/e/a, ../../b/c, true",
    "a, ../b, false",
    "d/a, ../../b, false",
    "a, /etc/passwd, false",
    // With `l` a link to `.`, this would be the parent of the folder.
    "a, l/l/../.., false",
    "a, d/../b, false",
  })
  void keepsOnlyLinksThatStayInside(String name, String to, boolean kept) throws Exception {
    link(name, to);

    Unpacked unpacked = unpack();

    assertThat(Files.exists(target.resolve(name), LinkOption.NOFOLLOW_LINKS)).isEqualTo(kept);
    assertThat(unpacked.leftOut())
        .isEqualTo(
            kept ? List.of() : List.of(name + ": a link that leads out of the folder, to " + to));
  }

  @Test
  void leavesOutHardLinksAndDevices() throws Exception {
    TarArchiveEntry hard = new TarArchiveEntry("hard", TarConstants.LF_LINK);
    hard.setLinkName("/etc/passwd");
    put(hard, "");
    put(new TarArchiveEntry("device", TarConstants.LF_CHR), "");
    put(new TarArchiveEntry("pipe", TarConstants.LF_FIFO), "");
    add("file", "good");

    Unpacked unpacked = unpack();

    assertThat(unpacked.files()).isEqualTo(1);
    assertThat(unpacked.leftOut()).hasSize(3);
    assertThat(target.toFile().list()).containsExactly("file");
  }

  @Test
  void leavesOutNamesThatWouldUpsetATerminal() throws Exception {
    add("a\033[2Jb/file", "bad");
    add("file", "good");

    assertThat(unpack().leftOut())
        .containsExactly("a\\u001b[2Jb/file: its name has control characters");
    assertThat(target.toFile().list()).containsExactly("file");
  }

  @Test
  void replacesAFileButNoFolder() throws Exception {
    Files.writeString(target.resolve("a"), "old");
    Files.createDirectory(target.resolve("b"));
    add("a", "new");
    add("b", "new");

    assertThatThrownBy(this::unpack)
        .hasMessage("will not replace the folder " + target.resolve("b") + " by a file");
    assertThat(target.resolve("a")).hasContent("new");
    assertThat(target.toFile().list()).containsExactlyInAnyOrder("a", "b");
  }

  @Test
  void leavesNoHalfFileOfATarThatBreaksOff() throws Exception {
    add("whole", "whole");
    add("half", "half".repeat(1000));
    tar.close();
    byte[] cut = java.util.Arrays.copyOf(bytes.toByteArray(), 2500);

    assertThatThrownBy(
            () -> TarUnpacker.unpack(new ByteArrayInputStream(cut), target, name -> name, LIMITS))
        .isInstanceOf(IOException.class);
    assertThat(target.toFile().list()).containsExactly("whole");
  }

  @Test
  void dropsTheBitsThatWouldGiveAwayRights() throws Exception {
    TarArchiveEntry entry = new TarArchiveEntry("tool");
    entry.setMode(06755);
    put(entry, "x");

    unpack();

    assertThat((int) Files.getAttribute(target.resolve("tool"), "unix:mode") & 07777)
        .isEqualTo(0755);
  }

  @ParameterizedTest
  @ValueSource(strings = {"gnu", "pax"})
  void aSparseFileIsRefusedHoweverLittleItTakesInTheTar(String format) throws Exception {
    Path bomb = Files.createFile(folder.resolve("bomb"));
    try (RandomAccessFile file = new RandomAccessFile(bomb.toFile(), "rw")) {
      file.setLength(300_000_000);
    }
    Path packed = folder.resolve("bomb.tar");
    Process packing =
        new ProcessBuilder(
                "tar",
                "-C",
                folder.toString(),
                "-S",
                "--format",
                format,
                "-cf",
                packed + "",
                "bomb")
            .inheritIO()
            .start();
    assertThat(packing.waitFor()).isZero();
    assertThat(Files.size(packed)).isLessThan(20_000);

    assertThatThrownBy(
            () ->
                TarUnpacker.unpack(
                    Files.newInputStream(packed),
                    target,
                    name -> name,
                    TarUnpacker.Limits.bytes(Long.MAX_VALUE)))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("sparse");
    assertThat(target).isEmptyDirectory();
  }

  @Test
  void noMoreIsWrittenThanAllowed() throws Exception {
    add("a", "x".repeat(9_000));
    add("b", "x".repeat(1_001));

    assertThatThrownBy(this::unpack)
        .hasMessage("will not unpack all of it: the tar unpacks to more than 9.8 KiB");
    assertThat(target.toFile().list()).containsExactly("a");
  }

  @Test
  void noMoreEntriesAreUnpackedThanAllowed() throws Exception {
    for (int i = 0; i < 21; i++) {
      add("f" + i, "");
    }

    assertThatThrownBy(this::unpack)
        .hasMessage("will not unpack all of it: the tar has more than 20 entries");
  }

  @Test
  void foldersAreNoDeeperThanAllowed() throws Exception {
    add("1/2/3/4/5", "");
    add("1/2/3/4/5b/6", "");

    assertThatThrownBy(this::unpack)
        .hasMessage("will not unpack all of it: the tar has folders more than 5 deep");
    assertThat(target.resolve("1/2/3/4/5")).exists();
  }

  @Test
  void aHeaderMayNotFillTheMemory() throws Exception {
    TarArchiveEntry entry = new TarArchiveEntry("a");
    tar.setLongFileMode(TarArchiveOutputStream.LONGFILE_POSIX);
    entry.addPaxHeader("comment", "x".repeat(2 << 20));
    put(entry, "");

    assertThatThrownBy(this::unpack).hasMessageContaining("has a header of more than");
  }

  private Path project(String name, String... files) throws IOException {
    Path project = Files.createDirectory(folder.resolve(name));
    for (String file : files) {
      Files.createDirectories(project.resolve(file).getParent());
      Files.writeString(project.resolve(file), file);
    }
    return project;
  }

  private void add(String name, String content) throws IOException {
    put(new TarArchiveEntry(name, true), content);
  }

  private void link(String name, String to) throws IOException {
    TarArchiveEntry entry = new TarArchiveEntry(name, TarConstants.LF_SYMLINK);
    entry.setLinkName(to);
    put(entry, "");
  }

  private void put(TarArchiveEntry entry, String content) throws IOException {
    byte[] data = content.getBytes(StandardCharsets.UTF_8);
    entry.setSize(data.length);
    tar.putArchiveEntry(entry);
    tar.write(data);
    tar.closeArchiveEntry();
  }

  @Test
  void keepsAFileThatExistsIfAskedTo() throws Exception {
    Files.createDirectories(target);
    Files.writeString(target.resolve("a"), "mine");
    add("a", "theirs");
    tar.close();

    assertThatThrownBy(
            () ->
                TarUnpacker.unpack(
                    new ByteArrayInputStream(bytes.toByteArray()),
                    target,
                    name -> name,
                    LIMITS,
                    TarUnpacker.Existing.KEEP))
        .hasMessage(target.resolve("a") + " exists");
    assertThat(target.resolve("a")).hasContent("mine");
    assertThat(target).isDirectoryNotContaining(path -> !path.endsWith("a"));
  }

  private Unpacked unpack() throws IOException {
    tar.close();
    return TarUnpacker.unpack(
        new ByteArrayInputStream(bytes.toByteArray()), target, name -> name, LIMITS);
  }

  private static byte[] sha256(byte[] content) throws Exception {
    return MessageDigest.getInstance("SHA-256").digest(content);
  }
}
