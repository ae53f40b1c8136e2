package berth.server.run;

import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.WRITE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.host.state.SmallDisk;
import berth.rpc.BerthException;
import berth.rpc.ByteSize;
import berth.rpc.Reason;
import berth.server.run.Bundles.Bundle;
import berth.server.run.Bundles.Upload;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarConstants;
import org.assertj.core.api.AbstractThrowableAssert;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class BundlesTest {
  private static final long MEBIBYTE = 1 << 20;

  @TempDir private Path folder;
  private Path store;
  private Path work;
  private Bundles bundles;

  @BeforeEach
  void openStore() {
    store = folder.resolve("bundles");
    work = folder.resolve("work");
    bundles = bundles(MEBIBYTE);
  }

  @Test
  void givesBackTheFilesOfATarPackedOrNot() throws IOException {
    byte[] tar =
        new Tars()
            .folder("./", 0755, 0)
            .folder("model", 0750, 1_000_000_000)
            .file("model/größe.h5", "weights", 0640, 1_100_000_000)
            .file("./train.py", "print(1)", 0755, 1_200_000_000)
            .file("n".repeat(120) + "/" + "m".repeat(120), "long", 0644, 0)
            .link("model/best", "größe.h5")
            .link("model/code", "../train.py")
            .bytes();
    for (byte[] packed : new byte[][] {tar, Tars.gzip(tar)}) {
      String digest = Tars.sha256(packed);
      assertThat(bundles.has(digest)).isFalse();
      assertThat(upload(packed)).isEqualTo(new Bundle(digest, packed.length));
      assertThat(bundles.has(digest)).isTrue();
      Path into = folder.resolve(digest);
      bundles.unpack(digest, into);
      assertThat(into.resolve("model/größe.h5")).hasContent("weights");
      assertThat(mode(into.resolve("model/größe.h5"))).isEqualTo(0640);
      assertThat(modified(into.resolve("model/größe.h5"))).isEqualTo(1_100_000_000);
      assertThat(mode(into.resolve("train.py"))).isEqualTo(0755);
      assertThat(mode(into.resolve("model"))).isEqualTo(0750);
      assertThat(modified(into.resolve("model"))).isEqualTo(1_000_000_000);
      assertThat(into.resolve("n".repeat(120)).resolve("m".repeat(120))).hasContent("long");
      assertThat(Files.readSymbolicLink(into.resolve("model/best"))).hasToString("größe.h5");
      assertThat(into.resolve("model/code")).hasContent("print(1)");
    }
    assertThat(store).isDirectoryNotContaining("glob:**.new");
  }

  @Test
  void keepsNoBitsThatGiveRightsAndLetsTheOwnerReadAndEnter() throws IOException {
    String digest =
        upload(
                new Tars()
                    .file("file", "", 07022, 0)
                    .folder("folder", 07055, 0)
                    .file("folder/inside", "x", 0, 0)
                    .bytes())
            .digest();
    bundles.unpack(digest, work);
    assertThat(mode(work.resolve("file"))).isEqualTo(0422);
    assertThat(mode(work.resolve("folder"))).isEqualTo(0755);
    assertThat(mode(work.resolve("folder/inside"))).isEqualTo(0400);
  }

  /** The unit of systemd shuts others out; but the user of an image may be anybody. */
  @Test
  void foldersThatAreOnlyImpliedCanBeEnteredWhateverTheUmask() throws Exception {
    byte[] tar = new Tars().file("a/b/file", "x").link("c/link", "../a").bytes();
    String digest = upload(tar).digest();
    Process unpacking =
        new ProcessBuilder(
                "sh",
                "-c",
                "umask 077; exec \"$@\"",
                "sh",
                Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                Unpacking.class.getName(),
                folder.toString(),
                digest)
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    assertThat(unpacking.waitFor()).isZero();
    assertThat(work.resolve("a/b/file")).hasContent("x");
    for (String implied : List.of("a", "a/b", "c")) {
      assertThat(mode(work.resolve(implied))).as(implied).isEqualTo(0755);
    }
    assertThat(mode(work.resolve("a/b/file"))).isEqualTo(0644);
  }

  /** Another process, which may have another umask. */
  static final class Unpacking {
    private Unpacking() {}

    public static void main(String[] args) {
      Path folder = Path.of(args[0]);
      bundles(folder, MEBIBYTE).unpack(args[1], folder.resolve("work"));
    }
  }

  @Test
  void takesTheLaterOfTwoFilesWithTheSameName() {
    byte[] tar =
        new Tars().file("a", "old").link("l", "a").file("a", "new").link("l", "./a").bytes();
    bundles.unpack(upload(tar).digest(), work);
    assertThat(work.resolve("a")).hasContent("new");
    assertThat(work.resolve("l")).isSymbolicLink().hasContent("new");
  }

  @Test
  void readsWhatGnuTarWritesWithHolesAndLongNames() throws Exception {
    Path made = Files.createDirectories(folder.resolve("made").resolve("d".repeat(150)));
    try (var file = Files.newByteChannel(made.resolve("holes"), CREATE_NEW, WRITE)) {
      file.position(1_000_000).write(ByteBuffer.wrap("end".getBytes(StandardCharsets.UTF_8)));
    }
    for (String format : new String[] {"gnu", "pax"}) {
      Path tar = folder.resolve(format + ".tar");
      Process process =
          new ProcessBuilder(
                  "tar",
                  "-S",
                  "-C",
                  made.getParent().toString(),
                  "--format=" + format,
                  "-cf",
                  tar.toString(),
                  ".")
              .inheritIO()
              .start();
      assertThat(process.waitFor()).isZero();
      Path into = folder.resolve("into-" + format);
      bundles.unpack(upload(Files.readAllBytes(tar)).digest(), into);
      assertThat(into.resolve("d".repeat(150)).resolve("holes"))
          .hasSameBinaryContentAs(made.resolve("holes"));
    }
  }

  @Test
  void refusesAFileWithHolesThatIsLargerThanABundleMayBe() throws Exception {
    Path made = Files.createDirectory(folder.resolve("made"));
    try (var file = Files.newByteChannel(made.resolve("holes"), CREATE_NEW, WRITE)) {
      file.position(1L << 32).write(ByteBuffer.wrap(new byte[] {1}));
    }
    Path tar = folder.resolve("sparse.tar");
    Process process =
        new ProcessBuilder("tar", "-S", "-C", made.toString(), "-cf", tar.toString(), "holes")
            .inheritIO()
            .start();
    assertThat(process.waitFor()).isZero();
    refuses(
        Files.readAllBytes(tar),
        Reason.EXHAUSTED,
        "the bundle unpacks to 4 GiB or more, this server allows 4 MiB");
  }

  static Stream<Arguments> refused() {
    String tooDeep = "d/".repeat(100) + "file";
    return Stream.of(
        Arguments.of(new Tars().file("/etc/x", ""), "the entry '/etc/x' has an absolute path"),
        Arguments.of(
            new Tars().file("a/../../x", ""),
            "the entry 'a/../../x' leads out of the bundle with '..'"),
        Arguments.of(
            new Tars().folder("..", 0755, 0), "the entry '../' leads out of the bundle with '..'"),
        Arguments.of(new Tars().file("", "x"), "the name of an entry is empty"),
        Arguments.of(
            new Tars().file("a\nb", "x"), "the name of an entry has control characters: 'a?b'"),
        Arguments.of(
            new Tars().file("ü\u001b[2J", "x"),
            "the name of an entry has control characters: 'ü?[2J'"),
        Arguments.of(new Tars().file(".", "x"), "the entry '' is a folder and a file in one"),
        Arguments.of(
            new Tars().special(TarConstants.LF_LINK, "a", "b"),
            "the entry 'a' is a hard link; pack it with tar --hard-dereference"),
        Arguments.of(
            new Tars().special(TarConstants.LF_CHR, "null", ""), "the entry 'null' is a device"),
        Arguments.of(
            new Tars().special(TarConstants.LF_BLK, "sda", ""), "the entry 'sda' is a device"),
        Arguments.of(
            new Tars().special(TarConstants.LF_FIFO, "p", ""), "the entry 'p' is a named pipe"),
        Arguments.of(
            new Tars().special((byte) 'V', "v", ""), "the entry 'v' is of the unknown type 86"),
        Arguments.of(
            new Tars().link("a", "/etc/passwd"),
            "the link 'a' to '/etc/passwd' has an absolute target"),
        Arguments.of(new Tars().link("a/b", ""), "the target of the link 'a/b' is empty"),
        Arguments.of(
            new Tars().link("a/b", "../../x"),
            "the link 'a/b' to '../../x' leads out of the bundle"),
        Arguments.of(new Tars().link("a", ".."), "the link 'a' to '..' leads out of the bundle"),
        Arguments.of(
            new Tars().link("d/e/x", "../..").link("y", "d/e/x/../.."),
            "the link 'y' to 'd/e/x/../..' has a '..' that is not at the beginning"),
        Arguments.of(
            new Tars().link("a", "b").file("a/x", ""),
            "the entry 'a/x' lies below 'a', which is a symbolic link"),
        Arguments.of(
            new Tars().link("a", "b").file("a/c/d/x", ""),
            "the entry 'a/c/d/x' lies below 'a', which is a symbolic link"),
        Arguments.of(
            new Tars().file("a/x", "").link("a", "b"),
            "the entry 'a' is a folder and a symbolic link in one"),
        Arguments.of(
            new Tars().file("a", "").link("./a", "b"),
            "the entry 'a' is a file and a symbolic link in one"),
        Arguments.of(
            new Tars().file("a", "").file("a//b", ""),
            "the entry 'a/b' lies below 'a', which is a file"),
        Arguments.of(
            new Tars().file("x".repeat(256), ""),
            "the name of an entry has a part longer than 255 bytes: '" + "x".repeat(200) + "...'"),
        Arguments.of(
            new Tars().file(tooDeep, ""),
            "the entry '"
                + tooDeep.substring(0, 200)
                + "...' lies in 100 folders, at most 99 are"
                + " allowed"));
  }

  @ParameterizedTest
  @MethodSource("refused")
  void refusesWhatIsNotInsideOfItsOwnFolder(Tars tar, String message) {
    refuses(tar.bytes(), Reason.INVALID, message);
  }

  @Test
  void refusesWhatIsNotATar() {
    refuses(new byte[0], Reason.INVALID, "the bundle is empty, not a tar");
    refuses(new byte[100], Reason.INVALID, "the bundle is empty, not a tar");
    assertRefused("print('hello')\n".repeat(200).getBytes(StandardCharsets.UTF_8))
        .hasMessageStartingWith("the bundle is not a tar");
    assertRefused(Tars.gzip("x".repeat(9000).getBytes(StandardCharsets.UTF_8)))
        .hasMessageStartingWith("the bundle is not a tar");
    assertRefused(new byte[] {0x1f, (byte) 0x8b, 1, 2, 3})
        .hasMessageStartingWith("the bundle is not a tar");
  }

  @Test
  void takesATarWithoutEntries() {
    bundles.unpack(upload(new Tars().bytes()).digest(), work);
    assertThat(work).isEmptyDirectory();
  }

  @Test
  void refusesATarThatIsCutOffAnywhere() {
    byte[] tar = new Tars().file("a", "x".repeat(600)).file("b", "y".repeat(512)).bytes();
    int end = 512 + 1024 + 512 + 512;
    for (int length : new int[] {513, 1000, 1536, 1537, 2047, 2048, 2300, end, end + 511}) {
      assertRefused(Arrays.copyOf(tar, length)).hasMessageContaining("cut off after '");
      byte[] packed = Tars.gzip(Arrays.copyOf(tar, length));
      assertRefused(packed).hasMessageContaining("cut off after '");
    }
    byte[] packed = Tars.gzip(tar);
    assertRefused(Arrays.copyOf(packed, packed.length / 2)).hasMessageContaining("the bundle is ");
    assertThat(upload(Arrays.copyOf(tar, end + 512)).bytes()).isEqualTo(end + 512);
  }

  @Test
  void refusesATarWithAWrongCheckSum() {
    byte[] tar = new Tars().file("a", "x").bytes();
    tar[0] = 'b';
    assertRefused(tar).hasMessage("the bundle is not a tar (wrong check sum)");
  }

  @Test
  void readsQuestionMarksForLettersThatAreNotUtf8() {
    byte[] tar = new Tars().file("a", "x").bytes();
    tar[0] = (byte) 0xff;
    int sum = 0;
    Arrays.fill(tar, 148, 156, (byte) ' ');
    for (int i = 0; i < 512; i++) {
      sum += tar[i] & 0xff;
    }
    byte[] text = String.format("%06o\0 ", sum).getBytes(StandardCharsets.US_ASCII);
    System.arraycopy(text, 0, tar, 148, text.length);
    bundles.unpack(upload(tar).digest(), work);
    assertThat(work.resolve("?")).hasContent("x");
  }

  @Test
  void standsHeadersThatAreNonsense() {
    for (String header : new String[] {"mtime", "size", "uid", "GNU.sparse.realsize"}) {
      for (String value : new String[] {"x", "-1", "1e999999999", "9".repeat(50)}) {
        TarArchiveEntry entry = new TarArchiveEntry("a");
        entry.addPaxHeader("comment", "=");
        byte[] tar = new Tars().put(entry, "content").bytes();
        String record = " " + header + "=" + value + "\n";
        int length = record.length() + 2;
        byte[] pax = (length + record).getBytes(StandardCharsets.UTF_8);
        // The record of the comment gives way to another one, and the size of the header with it.
        Arrays.fill(tar, 512, 1024, (byte) 0);
        System.arraycopy(pax, 0, tar, 512, pax.length);
        byte[] size = String.format("%011o", pax.length).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(size, 0, tar, 124, size.length);
        try {
          bundles.unpack(upload(tar).digest(), work);
        } catch (BerthException e) {
          // Not as a defect of the server, in any case.
          assertThat(e.reason()).isIn(Reason.INVALID, Reason.EXHAUSTED);
        }
      }
    }
  }

  @Test
  void refusesABundleThatIsTooLargePackedBeforeAllOfItIsThere() {
    try (Upload upload = bundles.begin("0".repeat(64))) {
      upload.write(ByteBuffer.allocate(600_000));
      assertThatThrownBy(() -> upload.write(ByteBuffer.allocate(600_000)))
          .hasMessage("the bundle has more than the 1 MiB that this server allows")
          .extracting("reason")
          .isEqualTo(Reason.EXHAUSTED);
    }
    assertThat(store).isEmptyDirectory();
  }

  @Test
  void refusesABundleThatIsTooLargeUnpacked() {
    byte[] tar = new Tars().file("a", "x".repeat(3 << 20)).file("b", "y".repeat(2 << 20)).bytes();
    refuses(
        Tars.gzip(tar),
        Reason.EXHAUSTED,
        "the bundle unpacks to 5 MiB or more, this server allows 4 MiB");
  }

  @Test
  void refusesADeclaredSizeWithoutReadingSoFar() {
    byte[] tar = new Tars().file("a", "x").bytes();
    TarArchiveEntry entry = new TarArchiveEntry("a");
    entry.setSize((1L << 33) - 1);
    entry.writeEntryHeader(tar);
    refuses(
        Arrays.copyOf(tar, 512),
        Reason.EXHAUSTED,
        "the bundle unpacks to 8 GiB or more, this server allows 4 MiB");
  }

  @ParameterizedTest
  @ValueSource(bytes = {TarConstants.LF_GNUTYPE_LONGNAME, TarConstants.LF_PAX_EXTENDED_HEADER_LC})
  void refusesANameThatWouldFillTheMemory(byte type) throws IOException {
    TarArchiveEntry entry = new TarArchiveEntry("long", type);
    entry.setSize(100 << 20);
    byte[] header = new byte[512];
    entry.writeEntryHeader(header);
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
      out.write(header);
      out.write("99999999 path=".getBytes(StandardCharsets.UTF_8));
      byte[] name = new byte[1 << 20];
      Arrays.fill(name, (byte) 'n');
      for (int i = 0; i < 100; i++) {
        out.write(name);
      }
    }
    refuses(
        packed.toByteArray(),
        Reason.EXHAUSTED,
        "the bundle has headers of more than 1048576 bytes for one entry, or 536870912 in all");
  }

  @Test
  void refusesTooManyEntriesAlsoIfTheyAreFoldersThatAreOnlyImplied() throws IOException {
    Tars many = new Tars();
    for (int i = 0; i <= BundleTar.MAX_ENTRIES; i++) {
      many.folder("same", 0755, 0);
    }
    refuses(
        Tars.gzip(many.bytes()),
        Reason.EXHAUSTED,
        "the bundle has more than 100000 entries, folders included");
    Tars implied = new Tars();
    for (int i = 0; i < 1100; i++) {
      implied.file(i + "/d".repeat(99), "");
    }
    refuses(
        Tars.gzip(implied.bytes()),
        Reason.EXHAUSTED,
        "the bundle has more than 100000 entries, folders included");
  }

  @Test
  void refusesAnotherContentThanAnnounced() {
    byte[] tar = new Tars().file("a", "x").bytes();
    String announced = "0".repeat(64);
    try (Upload upload = bundles.begin(announced)) {
      upload.write(ByteBuffer.wrap(tar));
      assertThatThrownBy(upload::finish)
          .hasMessage(
              "the bundle was announced as %s, its %d bytes are %s",
              announced, tar.length, Tars.sha256(tar))
          .extracting("reason")
          .isEqualTo(Reason.INVALID);
    }
    assertThat(store).isEmptyDirectory();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "abc", "../../../etc/passwd", "A", "sha256:0", "\n"})
  void refusesADigestThatIsNone(String start) {
    String padded = (start + "A".repeat(64)).substring(0, 64);
    for (String digest : new String[] {start, padded}) {
      for (Runnable call :
          new Runnable[] {
            () -> bundles.has(digest),
            () -> bundles.begin(digest),
            () -> bundles.unpack(digest, work)
          }) {
        assertThatThrownBy(call::run)
            .hasMessageStartingWith(
                "a bundle is named by the 64 lower-case hexadecimal digits of its SHA-256; given: ")
            .extracting("reason")
            .isEqualTo(Reason.INVALID);
      }
    }
  }

  @Test
  void storesOneBundleForTwoUploadsOfItAtTheSameTime() {
    byte[] tar = new Tars().file("a", "x").bytes();
    String digest = Tars.sha256(tar);
    try (Upload first = bundles.begin(digest);
        Upload second = bundles.begin(digest)) {
      first.write(ByteBuffer.wrap(tar));
      second.write(ByteBuffer.wrap(tar, 0, 100));
      first.finish();
      second.write(ByteBuffer.wrap(tar, 100, tar.length - 100));
      second.finish();
    }
    assertThat(store).isDirectoryContaining(path -> path.endsWith(digest));
    assertThat(store.toFile().list()).containsExactly(digest);
  }

  @Test
  void leavesNothingOfUploadsThatWereAbortedOrKilled() {
    byte[] tar = new Tars().file("a", "x").bytes();
    String digest = upload(tar).digest();
    Upload killed = bundles.begin("0".repeat(64));
    killed.write(ByteBuffer.wrap(tar));
    try (Upload aborted = bundles.begin("1".repeat(64))) {
      aborted.write(ByteBuffer.wrap(tar));
    }
    assertThat(store.toFile().list()).hasSize(2);
    assertThat(bundles(1).has(digest)).isTrue();
    assertThat(store.toFile().list()).containsExactly(digest);
    killed.close();
  }

  @Test
  void tellsThatABundleIsNotThere() {
    String digest = "0".repeat(64);
    assertThatThrownBy(() -> bundles.unpack(digest, work))
        .hasMessage("there is no bundle " + digest + " on this server; upload it first")
        .extracting("reason")
        .isEqualTo(Reason.NOT_FOUND);
  }

  @Test
  void deletesWhatNobodyHasUsedForLong() throws IOException {
    String[] digests = new String[4];
    Instant now = Instant.now();
    for (int i = 0; i < digests.length; i++) {
      digests[i] = upload(new Tars().file("a" + i, "x").bytes()).digest();
      FileTime longAgo = FileTime.from(now.minusSeconds(1000));
      Files.setLastModifiedTime(store.resolve(digests[i]), longAgo);
    }
    Files.writeString(store.resolve("README"), "not a bundle");
    bundles.has(digests[1]);
    bundles.unpack(digests[2], work);
    upload(new Tars().file("a3", "x").bytes());
    new Retention(Duration.ofSeconds(500), Long.MAX_VALUE, 10, bundles)
        .clear(List.of(), Set.of(), now, run -> {});
    assertThat(store.toFile().list())
        .containsExactlyInAnyOrder(digests[1], digests[2], digests[3], "README");
  }

  private Bundles bundles(long packed) {
    return bundles(folder, packed);
  }

  private static Bundles bundles(Path folder, long packed) {
    return new Bundles(
        folder.resolve("bundles"),
        new Bundles.Limits(packed, 4 * packed, Long.MAX_VALUE),
        Disks.roomy(folder),
        Disks.durable());
  }

  @Test
  void neverWritesThroughALinkThatIsInTheWay() throws IOException {
    Path outside = Files.createDirectory(folder.resolve("outside"));
    Path file = Files.writeString(outside.resolve("file"), "untouched");
    Files.createDirectory(work);
    Files.createSymbolicLink(work.resolve("file"), file);
    bundles.unpack(upload(new Tars().file("file", "new", 0777, 5).bytes()).digest(), work);
    assertThat(work.resolve("file")).hasContent("new").isRegularFile();
    assertThat(Files.isSymbolicLink(work.resolve("file"))).isFalse();
    assertThat(file).hasContent("untouched");

    Files.createSymbolicLink(work.resolve("folder"), outside);
    String digest = upload(new Tars().file("folder/file", "new").bytes()).digest();
    assertThatThrownBy(() -> bundles.unpack(digest, work))
        .hasMessageContaining(work.resolve("folder") + " is in the way of a folder")
        .extracting("reason")
        .isEqualTo(Reason.UNAVAILABLE);
    assertThat(file).hasContent("untouched");
  }

  @Test
  void checksAgainWhatItUnpacks() throws IOException {
    String digest = upload(new Tars().file("a", "x").bytes()).digest();
    Files.write(store.resolve(digest), new Tars().file("../b", "x").bytes());
    assertThatThrownBy(() -> bundles.unpack(digest, work)).isInstanceOf(BerthException.class);
    assertThat(folder.resolve("b")).doesNotExist();
  }

  @Test
  void aBundleThatIsDamagedIsSetAsideAndCanBeUploadedAgain() throws IOException {
    byte[] packed = new Tars().file("a", "x".repeat(5000)).bytes();
    String digest = upload(packed).digest();
    String other = upload(new Tars().file("b", "y").bytes()).digest();
    Path file = store.resolve(digest);
    for (byte[] damaged : RunStoreTest.damages(packed)) {
      Files.write(file, damaged);

      // Also by a server that finds it so.
      bundles = bundles(MEBIBYTE);
      assertThatThrownBy(() -> bundles.unpack(digest, work)).isInstanceOf(BerthException.class);

      assertThat(bundles.has(digest)).isFalse();
      assertThat(store.toFile().list())
          .anyMatch(name -> name.startsWith("damaged-") && name.endsWith(digest));
      bundles.unpack(other, folder.resolve("other"));
      WorkFiles.delete(work);
      upload(packed);
      bundles.unpack(digest, work);
      WorkFiles.delete(work);
    }
  }

  @Test
  void whatAQueuedRunNeedsIsKeptHoweverLongItWaits() throws IOException {
    String needed = upload(new Tars().file("a", "x").bytes()).digest();
    String old = upload(new Tars().file("b", "x").bytes()).digest();

    new Retention(Duration.ofSeconds(1), 1, 10, bundles)
        .clear(List.of(), Set.of(needed), Instant.now().plusSeconds(10_000), run -> {});

    assertThat(bundles.has(needed)).isTrue();
    assertThat(bundles.has(old)).isFalse();
  }

  @Test
  void unpackingStopsBeforeTheDiskIsFull() throws IOException {
    // Each fits on the disk, but not beside what is to be left of it.
    byte[] large = Tars.gzip(new Tars().file("zeros", "0".repeat(48 << 20)).bytes());
    Tars many = new Tars();
    for (int i = 0; i < 12_000; i++) {
      many.file("f" + i, "x");
    }
    Files.createDirectory(work);
    try (SmallDisk disk = new SmallDisk(work, 64)) {
      bundles =
          new Bundles(
              store,
              new Bundles.Limits(64 * MEBIBYTE, 256 * MEBIBYTE, Long.MAX_VALUE),
              new StateDisk("gpu01", work, Optional.of(40 * MEBIBYTE)),
              Disks.durable());
      for (byte[] packed : List.of(large, Tars.gzip(many.bytes()))) {
        String digest = upload(packed).digest();
        Path into = work.resolve(digest);

        assertThatThrownBy(() -> bundles.unpack(digest, into))
            .hasMessageStartingWith("the unpacking of a bundle is refused: gpu01 has ")
            .extracting("reason")
            .isEqualTo(Reason.UNAVAILABLE);

        // What it writes between two looks, and a little.
        assertThat(disk.room()).isGreaterThan((40 - 16 - 1) * MEBIBYTE);
        assertThat(bundles.has(digest)).as("is as good as before").isTrue();
        WorkFiles.delete(into);
      }
    }
  }

  @Test
  void allBundlesTogetherHaveALimit() {
    byte[] first = new Tars().file("a", "x".repeat(50_000)).bytes();
    bundles =
        new Bundles(
            store,
            new Bundles.Limits(MEBIBYTE, MEBIBYTE, first.length + 100),
            Disks.roomy(folder),
            Disks.durable());
    upload(first);

    assertThatThrownBy(() -> upload(new Tars().file("b", "x").bytes()))
        .hasMessage(
            "upload refused: the bundles on this server have "
                + ByteSize.text(first.length)
                + " and would have more than the "
                + ByteSize.text(first.length + 100)
                + " that are allowed (--keep-bytes); unused ones are deleted");
  }

  @Test
  void uploadsAtTheSameTimeHaveTheLimitTogether() {
    bundles =
        new Bundles(
            store,
            new Bundles.Limits(MEBIBYTE, MEBIBYTE, 100_000),
            Disks.roomy(folder),
            Disks.durable());
    byte[] half = new byte[50_000];
    try (Upload first = bundles.begin("0".repeat(64))) {
      first.write(ByteBuffer.wrap(half));
      try (Upload second = bundles.begin("1".repeat(64))) {
        second.write(ByteBuffer.wrap(half));
        assertThatThrownBy(() -> first.write(ByteBuffer.wrap(new byte[1])))
            .hasMessageStartingWith("upload refused: the bundles on this server have 97.7 KiB");
      }
      first.write(ByteBuffer.wrap(half));
    }
    byte[] tar = new Tars().file("a", "x".repeat(80_000)).bytes();
    upload(tar);
    bundles.delete(Tars.sha256(tar), Instant.now().plusSeconds(60));
    upload(tar);
  }

  @Test
  void thereAreNoMoreBundlesThanMayBeAndOldOnesMakeRoom() throws IOException {
    bundles =
        new Bundles(
            store,
            new Bundles.Limits(MEBIBYTE, MEBIBYTE, Long.MAX_VALUE, 4),
            Disks.roomy(folder),
            Disks.durable());
    Instant now = Instant.now();
    String[] digests = new String[4];
    for (int i = 0; i < digests.length; i++) {
      digests[i] = upload(new Tars().file("a" + i, "x").bytes()).digest();
      Instant used = now.minus(Duration.ofHours(10 - i));
      Files.setLastModifiedTime(store.resolve(digests[i]), FileTime.from(used));
    }
    assertThatThrownBy(() -> bundles.begin("0".repeat(64)))
        .hasMessageStartingWith("upload refused: 4 bundles on this server")
        .extracting("reason")
        .isEqualTo(Reason.EXHAUSTED);

    new Retention(Duration.ofDays(7), Long.MAX_VALUE, 10, bundles)
        .clear(List.of(), Set.of(digests[0]), now, run -> {});

    assertThat(store.toFile().list()).containsExactlyInAnyOrder(digests[0], digests[3]);
    bundles.begin("0".repeat(64)).close();
  }

  private Bundle upload(byte[] packed) {
    try (Upload upload = bundles.begin(Tars.sha256(packed));
        var in = new ByteArrayInputStream(packed)) {
      while (in.available() > 0) {
        upload.write(ByteBuffer.wrap(in.readNBytes(10_000)));
      }
      return upload.finish();
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private void refuses(byte[] packed, Reason reason, String message) {
    assertThatThrownBy(() -> upload(packed))
        .hasMessage(message)
        .isInstanceOf(BerthException.class)
        .extracting("reason")
        .isEqualTo(reason);
    assertThat(store).isEmptyDirectory();
  }

  private AbstractThrowableAssert<?, ?> assertRefused(byte[] packed) {
    return assertThatThrownBy(() -> upload(packed))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID));
  }

  private static int mode(Path path) throws IOException {
    return (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS) & 07777;
  }

  private static long modified(Path path) throws IOException {
    return Files.getLastModifiedTime(path).toInstant().getEpochSecond();
  }
}
