package berth.host.state;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.rpc.Vitals;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DurableFilesTest {
  private final DurableFiles files = new DurableFiles(new Vitals());

  @TempDir Path folder;

  @AfterEach
  void close() {
    files.close();
  }

  @Test
  void whatWasWrittenIsReadAgainAndReplaced() throws Exception {
    Path file = folder.resolve("state");
    files.write(file, "one".getBytes(UTF_8));
    files.write(file, "two".getBytes(UTF_8));
    assertThat(RecordFile.read(file)).asString(UTF_8).isEqualTo("two");
    assertThat(folder).isDirectoryContaining("glob:**/state");
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file)))
        .isEqualTo("rw-------");
    try (var all = Files.list(folder)) {
      assertThat(all).containsExactly(file);
    }
  }

  @Test
  void everyCutAndEveryChangedByteIsNoticed() throws Exception {
    Path file = folder.resolve("state");
    files.write(file, "id=run-1\nphase=QUEUED\n".getBytes(UTF_8));
    byte[] whole = Files.readAllBytes(file);
    for (int length = 0; length < whole.length; length++) {
      byte[] cut = Arrays.copyOf(whole, length);
      assertThatThrownBy(() -> RecordFile.decode(file, cut))
          .isInstanceOf(DamagedFileException.class)
          .hasMessageStartingWith(file + " is damaged");
      byte[] changed = whole.clone();
      changed[length] ^= 0x10;
      assertThatThrownBy(() -> RecordFile.decode(file, changed))
          .isInstanceOf(DamagedFileException.class);
    }
  }

  /** Else a power failure may leave a name without its content, or a record without its folder. */
  @Test
  void contentsAreOnDiskBeforeTheirNamesAndNamesBeforeItReturns() throws Exception {
    Path record = folder.resolve("run-1").resolve("state");
    Path output = Files.createFile(folder.resolve("output"));
    Files.createDirectory(record.getParent());
    List<String> flushed = new ArrayList<>();
    try (DurableFiles watched =
        new DurableFiles(
            new Vitals(),
            (path, how) ->
                flushed.add(
                    folder.relativize(path).toString().replaceFirst("\\.\\d+\\.new$", ".new")
                        + (Files.exists(record) ? " after the name" : "")))) {
      watched.write(Map.of(record, "x".getBytes(UTF_8)), output, folder);
    }
    assertThat(flushed.subList(0, 2)).containsExactlyInAnyOrder("output", "");
    assertThat(flushed.subList(2, flushed.size()))
        .containsExactly("run-1/state.new", "run-1 after the name");
  }

  @Test
  void manyWritersShareTheFlushesOfTheirFolder() throws Exception {
    CountDownLatch all = new CountDownLatch(1);
    AtomicInteger ofFolder = new AtomicInteger();
    try (DurableFiles slow =
        new DurableFiles(
            new Vitals(),
            (path, how) -> {
              try {
                all.await();
              } catch (InterruptedException e) {
                throw new IOException(e);
              }
              if (path.equals(folder)) {
                ofFolder.incrementAndGet();
              }
            })) {
      var threads = Executors.newFixedThreadPool(50);
      try {
        var written =
            IntStream.range(0, 50)
                .<Future<?>>mapToObj(
                    i ->
                        threads.submit(
                            () -> {
                              slow.write(folder.resolve("f" + i), new byte[] {1});
                              return null;
                            }))
                .toList();
        // All but the first have written and wait for the disk.
        await().until(() -> filesIn(folder) == 50);
        all.countDown();
        for (Future<?> one : written) {
          one.get();
        }
      } finally {
        threads.shutdownNow();
      }
      assertThat(ofFolder).hasValueLessThan(25);
    }
  }

  private static long filesIn(Path folder) throws IOException {
    try (var all = Files.list(folder)) {
      return all.count();
    }
  }

  @Test
  void whoComesWhenItIsClosedIsToldSo() {
    files.close();
    assertThatThrownBy(() -> files.write(folder.resolve("late"), new byte[1]))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("stopping");
  }

  @Test
  void aFailureIsOnlyItsOwn() throws Exception {
    var threads = Executors.newFixedThreadPool(8);
    try {
      var all =
          IntStream.range(0, 200)
              .<Future<?>>mapToObj(
                  i ->
                      threads.submit(
                          () -> {
                            Path parent = folder.resolve(i % 10 == 0 ? "missing" : ".");
                            files.write(parent.resolve("f" + i), new byte[] {(byte) i});
                            return null;
                          }))
              .toList();
      for (int i = 0; i < all.size(); i++) {
        if (i % 10 == 0) {
          Future<?> refused = all.get(i);
          assertThatThrownBy(refused::get).hasCauseInstanceOf(IOException.class);
        } else {
          all.get(i).get();
          assertThat(RecordFile.read(folder.resolve("f" + i))).containsExactly(i);
        }
      }
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void onAFullDiskARecordIsReplacedWhereItStands() throws Exception {
    Path small = Files.createDirectory(folder.resolve("small"));
    SmallDisk disk = new SmallDisk(small);
    try {
      Path file = small.resolve("state");
      files.replace(file, "phase=RUNNING\n".getBytes(UTF_8));
      disk.fill();
      String longer = "phase=ENDED\nended.message=" + "x".repeat(3000) + "\n";
      files.replace(file, longer.getBytes(UTF_8));
      assertThat(RecordFile.readProperties(file))
          .hasSize(2)
          .containsEntry("phase", "ENDED")
          .containsEntry("ended.message", "x".repeat(3000));
      byte[] tooLong = new byte[5000];
      assertThatThrownBy(() -> files.replace(file, tooLong)).isInstanceOf(IOException.class);
      assertThat(RecordFile.readProperties(file)).containsEntry("phase", "ENDED");
    } finally {
      disk.close();
    }
  }

  @Test
  void anInterruptedCallerStillKnowsHowItEnded() throws Exception {
    Path file = folder.resolve("state");
    Files.createDirectory(folder.resolve("sub"));
    Thread.currentThread().interrupt();
    try {
      files.flush(folder);
      assertThat(Thread.currentThread().isInterrupted()).isTrue();
    } finally {
      Thread.interrupted();
    }
    files.write(Map.of(file, new byte[0]), folder);
    assertThat(RecordFile.read(file)).isEmpty();
  }

  @Test
  void whatIsDamagedIsSetAsideUnderATellingName() throws Exception {
    Path file = Files.writeString(folder.resolve("state"), "garbage");
    Path aside = StateFolder.setAside(file);
    assertThat(StateFolder.isSetAside(aside)).isTrue();
    assertThat(aside).hasContent("garbage");
    assertThat(file).doesNotExist();
  }

  @Test
  void aFolderThatOthersCouldEnterIsClosed() throws Exception {
    Path state = folder.resolve("a/b");
    StateFolder.create(state);
    Files.setPosixFilePermissions(state, PosixFilePermissions.fromString("rwxr-xr-x"));
    StateFolder.create(state);
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(state)))
        .isEqualTo("rwx------");
  }
}
