package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OutageFilesTest {
  private static final Outage RESET =
      new Outage(
          OptionalInt.of(12),
          RecoveryAction.GPU_RESET,
          "XID 48, uncorrectable memory error",
          false,
          false);
  private static final Outage REBOOT =
      new Outage(
          OptionalInt.empty(), RecoveryAction.NODE_REBOOT, "the driver says so: ü\n=", true, true);

  @TempDir private Path state;
  private final Vitals vitals = new Vitals();
  private final DurableFiles files = new DurableFiles(vitals);

  @AfterEach
  void close() {
    files.close();
  }

  @Test
  void whatWasFlushedIsThereAgainUntilTheMachineIsRestarted() throws Exception {
    OutageFiles first = store("boot-1");
    assertThat(first.load()).isEmpty();
    first.save(Map.of("GPU-a", RESET, "GPU-b", REBOOT));
    first.flush();

    assertThat(store("boot-1").load()).isEqualTo(Map.of("GPU-a", RESET, "GPU-b", REBOOT));
    OutageFiles afterReboot = store("boot-2");
    assertThat(afterReboot.load()).isEmpty();
    afterReboot.flush();
    assertThat(names()).isEmpty();
  }

  @Test
  void anOutageLikeTheOneBeforeARebootIsOfThisBoot() throws Exception {
    OutageFiles before = store("boot-1");
    before.save(Map.of("GPU-a", RESET));
    before.flush();
    OutageFiles after = store("boot-2");
    assertThat(after.load()).isEmpty();
    after.save(Map.of("GPU-a", RESET));
    after.flush();

    assertThat(store("boot-2").load()).isEqualTo(Map.of("GPU-a", RESET));
  }

  @Test
  void anOutageThatIsOverIsForgotten() throws Exception {
    OutageFiles store = store("boot");
    store.save(Map.of("GPU-a", RESET, "GPU-b", RESET));
    store.flush();
    store.save(Map.of("GPU-b", REBOOT));
    store.flush();

    assertThat(names()).containsExactly("GPU-b");
    assertThat(store("boot").load()).isEqualTo(Map.of("GPU-b", REBOOT));
  }

  @Test
  void onlyTheDaemonsUserMayRead() throws Exception {
    OutageFiles store = store("boot");
    store.save(Map.of("GPU-a", RESET));
    store.flush();

    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(folder())))
        .isEqualTo("rwx------");
    assertThat(
            PosixFilePermissions.toString(Files.getPosixFilePermissions(folder().resolve("GPU-a"))))
        .isEqualTo("rw-------");
  }

  @Test
  void aDamagedFileIsSetAsideAndItsGpuStaysOutOfServiceWhileTheOthersAreAsTheyWere()
      throws Exception {
    OutageFiles store = store("boot");
    store.save(Map.of("GPU-a", RESET, "GPU-b", REBOOT));
    store.flush();
    byte[] whole = Files.readAllBytes(folder().resolve("GPU-a"));

    for (int length = 0; length < whole.length; length++) {
      Files.write(folder().resolve("GPU-a"), Arrays.copyOf(whole, length));
      OutageFiles reopened = store("boot");
      Map<String, Outage> loaded = reopened.load();
      assertThat(loaded.get("GPU-a").action()).isEqualTo(RecoveryAction.INSPECT);
      assertThat(loaded.get("GPU-b")).isEqualTo(REBOOT);
    }
    assertThat(names()).anyMatch(name -> name.startsWith("damaged-") && name.endsWith("-GPU-a"));
  }

  @Test
  void aUuidThatIsNoFileNameIsNotKept() throws Exception {
    OutageFiles store = store("boot");
    store.save(Map.of("../../escaped", RESET, "GPU-a", RESET));
    store.flush();
    store.save(Map.of());
    store.flush();

    assertThat(names()).isEmpty();
    assertThat(state.getParent().resolve("escaped")).doesNotExist();
  }

  @Test
  void aDiskThatCannotBeWrittenDelaysNobodyAndIsTriedAgain() throws Exception {
    // Not even root can make a folder where a file is.
    Path blocked = Files.writeString(state.resolve("gpu-outages"), "");
    OutageFiles store = new OutageFiles(state, files, "boot", Duration.ofMillis(1));
    store.start(vitals);
    store.save(Map.of("GPU-a", RESET));
    assertThatThrownBy(store::flush).isInstanceOf(IOException.class);

    Files.delete(blocked);
    await()
        .atMost(Duration.ofSeconds(60))
        .until(() -> Files.exists(state.resolve("gpu-outages").resolve("GPU-a")));
    assertThat(vitals.problem()).isEmpty();
    store.close();
  }

  private OutageFiles store(String bootId) {
    return new OutageFiles(state, files, bootId, Duration.ofMillis(1));
  }

  private Path folder() {
    return state.resolve("gpu-outages");
  }

  private List<String> names() throws IOException {
    try (Stream<Path> found = Files.list(folder())) {
      return found.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }
}
