package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.host.state.DurableFiles;
import berth.host.state.RecordFile;
import berth.host.state.StateFolder;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.RunRecord.Phase;
import berth.server.run.RunStore.Loaded;
import berth.server.run.RunStore.Stored;
import berth.v1.GpuRequest;
import berth.v1.Owner;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is on disk of runs, as it should be and after something went wrong with the disk. */
class RunStoreTest {
  private static final int CUTS = 64;
  private static final String ENDED = "run-0000000001";
  private static final String RUNNING = "run-0000000002";
  private static final String QUEUED = "run-0000000003";

  @TempDir private Path folder;
  private DurableFiles durable;
  private RunStore store;

  @BeforeEach
  void open() {
    durable = Disks.durable();
    store = new RunStore(folder.resolve("runs"), durable);
    add(ENDED, 1, Phase.CLEANED);
    add(RUNNING, 2, Phase.RUNNING);
    add(QUEUED, 3, Phase.QUEUED);
  }

  @AfterEach
  void close() {
    durable.close();
  }

  private void add(String id, long number, Phase phase) {
    RunRecord accepted =
        RunRecord.accepted(
            id, "request " + id, number, Instant.ofEpochSecond(1000 - number), phase);
    store.add(accepted, RunRequest.of(request(id)));
  }

  private static RunCodeRequest request(String name) {
    return RunCodeRequest.newBuilder()
        .setSource(
            Source.newBuilder()
                .setFileName("run.sh")
                .setContent(ByteString.copyFromUtf8("echo hello\n".repeat(100)))
                .addInterpreter("sh"))
        .putFiles("data", ByteString.copyFromUtf8("xyz"))
        .putEnv("SECRET", "secret")
        .addCommand("x".repeat(5000))
        .setGpus(GpuRequest.newBuilder().setCount(1))
        .setOwner(Owner.newBuilder().setUser("ann").setHost("laptop"))
        .setName(name)
        .build();
  }

  @Test
  void runsAreLoadedInTheOrderOfTheirAcceptanceWhateverTheClockSaid() {
    Loaded loaded = store.load();

    assertThat(loaded.unreadable()).isEmpty();
    assertThat(loaded.runs())
        .extracting(stored -> stored.record().id())
        .containsExactly(ENDED, RUNNING, QUEUED);
  }

  @Test
  void onlyWhatListsShowIsLoaded() {
    RequestedRun waiting = byId(store.load()).get(QUEUED).spec().orElseThrow();

    assertThat(waiting.env()).isEmpty();
    assertThat(((RequestedRun.Code.Source) waiting.code()).content()).isEmpty();
    assertThat(waiting.files().get("data")).isEmpty();
    assertThat(waiting.command().get(0)).hasSize(1003).endsWith("...");
    assertThat(waiting.name()).isEqualTo(QUEUED);
    assertThat(waiting.gpus()).isPresent();
    assertThat(store.whole(store.folderOf(QUEUED)).env()).containsEntry("SECRET", "secret");
    assertThat(byId(store.load()).get(ENDED).spec()).isEmpty();
    assertThat(store.shown(store.folderOf(ENDED)).name()).isEqualTo(ENDED);
  }

  /** As versions kept them that dropped nothing. */
  @Test
  void whatNobodyKnowsInAKeptRequestIsDropped() throws IOException {
    UnknownFieldSet unknown =
        UnknownFieldSet.newBuilder()
            .addField(
                5000,
                UnknownFieldSet.Field.newBuilder()
                    .addLengthDelimited(ByteString.copyFrom(new byte[1 << 20]))
                    .build())
            .build();
    RunCodeRequest.Builder large = request(QUEUED).toBuilder().setUnknownFields(unknown);
    large.getOwnerBuilder().setUnknownFields(unknown);
    RunFolder run = store.folderOf(QUEUED);
    durable.write(run.content(), large.build().toByteArray());
    Files.write(run.request(), new byte[0]);

    assertThat(byId(store.load()).get(QUEUED).spec().orElseThrow().name()).isEqualTo(QUEUED);

    assertThat(Files.size(run.request())).isLessThan(10_000);
  }

  @Test
  void nobodyElseCanReadIt() throws IOException {
    assertThat(mode(folder.resolve("runs"))).isEqualTo("rwx------");
    assertThat(mode(store.folderOf(QUEUED).path())).isEqualTo("rwx------");
    for (Path file : files(store.folderOf(QUEUED).path())) {
      assertThat(mode(file)).isEqualTo("rw-------");
    }
  }

  @Test
  void whatWasNotAcceptedIsDeletedAndWhatAKilledServerWasWritingToo() throws IOException {
    Path half = Files.createDirectory(folder.resolve("runs/run-0000000004"));
    Files.writeString(half.resolve("content"), "half");
    Path left =
        Files.writeString(store.folderOf(QUEUED).path().resolve("state.7.new"), "half a record");

    assertThat(byId(store.load())).containsOnlyKeys(ENDED, RUNNING, QUEUED);

    assertThat(half).doesNotExist();
    assertThat(left).doesNotExist();
  }

  @Tag("slow")
  @Test
  void whicheverFileIsDamagedTheOtherRunsAreAsTheyWere() throws IOException {
    Map<String, Stored> before = byId(store.load());
    for (String id : List.of(ENDED, RUNNING, QUEUED)) {
      for (Path file : files(store.folderOf(id).path())) {
        byte[] whole = Files.readAllBytes(file);
        for (byte[] damaged : damages(whole)) {
          Files.write(file, damaged);

          Loaded loaded = store.load();

          Map<String, Stored> others = byId(loaded);
          Stored own = others.remove(id);
          Map<String, Stored> expected = new java.util.HashMap<>(before);
          expected.remove(id);
          assertThat(records(others)).isEqualTo(records(expected));
          boolean stateLost = file.getFileName().toString().equals("state");
          assertThat(own).isNotNull();
          assertThat(own.damaged()).isEqualTo(stateLost);
          if (stateLost) {
            // Never one that is to be started.
            assertThat(own.record().phase()).isEqualTo(Phase.LAUNCHING);
            assertThat(asides(file.getParent())).isNotEmpty();
          } else {
            assertThat(own.record()).isEqualTo(before.get(id).record());
          }
          clearAsides(file.getParent());
          Files.write(file, whole);
        }
      }
    }
  }

  @Test
  void aRunWhoseStateIsDamagedIsThereAtEveryStartUntilItIsSaved() throws IOException {
    RunFolder run = store.folderOf(RUNNING);
    Path output = Files.createDirectories(run.spool()).resolve("stdout");
    Files.writeString(output, "printed");
    byte[] garbage = new byte[100];
    Files.write(run.state(), garbage);

    for (int start = 0; start < 3; start++) {
      Stored stored = byId(store.load()).get(RUNNING);
      assertThat(stored).isNotNull();
      assertThat(stored.damaged()).isTrue();
    }

    assertThat(output).hasContent("printed");
    assertThat(asides(run.path()))
        .singleElement()
        .satisfies(aside -> assertThat(aside).hasBinaryContent(garbage));
    store.save(byId(store.load()).get(RUNNING).record());
    assertThat(byId(store.load()).get(RUNNING).damaged()).isFalse();
    assertThat(asides(run.path())).hasSize(1);
  }

  /** Which a checksum does not tell. */
  @Test
  void aRecordOfAnotherRunIsDamaged() throws IOException {
    RunFolder run = store.folderOf(RUNNING);
    Files.copy(store.folderOf(QUEUED).state(), run.state(), StandardCopyOption.REPLACE_EXISTING);

    List<Stored> loaded = store.load().runs();

    assertThat(loaded)
        .extracting(stored -> stored.record().id())
        .containsExactlyInAnyOrder(ENDED, RUNNING, QUEUED);
    assertThat(loaded).filteredOn(Stored::damaged).extracting(Stored::folder).containsExactly(run);
  }

  @Test
  void aRecordThatLeavesOutATextIsDamaged() throws IOException {
    RunFolder run = store.folderOf(RUNNING);
    Properties properties = RecordFile.readProperties(run.state());
    properties.setProperty("stop.reason", "CANCELLED");
    durable.write(run.state(), RecordFile.content(properties));

    assertThat(byId(store.load()).get(RUNNING).damaged()).isTrue();
  }

  @Test
  void aRunOfWhichNothingIsLeftButItsStateIsToldApart() throws IOException {
    RunFolder run = store.folderOf(QUEUED);
    Files.write(run.request(), new byte[0]);
    Files.write(run.content(), new byte[0]);

    Loaded loaded = store.load();

    assertThat(loaded.unreadable()).containsExactly(run);
    assertThat(byId(loaded)).containsOnlyKeys(ENDED, RUNNING);
    assertThat(run.path()).exists();
  }

  @Test
  void codeThatIsDamagedIsNeverRun() throws IOException {
    RunFolder run = store.folderOf(QUEUED);
    byte[] whole = Files.readAllBytes(run.content());
    for (byte[] damaged : damages(whole)) {
      Files.write(run.content(), damaged);
      assertThatThrownBy(() -> store.whole(run))
          .hasMessageContaining(run.content() + " is damaged")
          .isInstanceOfSatisfying(
              BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CONFLICT));
    }
  }

  /** Emptied, cut at many lengths, and full of something else. */
  static List<byte[]> damages(byte[] whole) {
    List<byte[]> damages = new ArrayList<>();
    int step = Math.max(1, whole.length / CUTS);
    for (int length = 0; length < whole.length; length += step) {
      damages.add(Arrays.copyOf(whole, length));
    }
    byte[] garbage = new byte[whole.length];
    new Random(1).nextBytes(garbage);
    damages.add(garbage);
    damages.add(new byte[whole.length]);
    return damages;
  }

  private static Map<String, RunRecord> records(Map<String, Stored> stored) {
    return stored.entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().record()));
  }

  private static Map<String, Stored> byId(Loaded loaded) {
    return loaded.runs().stream()
        .collect(
            Collectors.toMap(
                stored -> stored.folder().path().getFileName().toString(), Function.identity()));
  }

  private static List<Path> files(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.filter(Files::isRegularFile).sorted().toList();
    }
  }

  private static List<Path> asides(Path folder) throws IOException {
    return files(folder).stream().filter(StateFolder::isSetAside).toList();
  }

  private static void clearAsides(Path folder) throws IOException {
    for (Path file : asides(folder)) {
      Files.delete(file);
    }
  }

  private static String mode(Path path) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
  }
}
