package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class SimulationTest {
  @TempDir private Path folder;

  static Stream<Optional<Path>> libraries() {
    return Stream.of(
        Optional.empty(),
        Optional.of(Path.of(System.getProperty("berth.nvmlSim"), "3", NvmlGpus.LIBRARY)));
  }

  @ParameterizedTest
  @MethodSource("libraries")
  void simulatesAsManyGpusAsAreAsked(Optional<Path> library) {
    for (int count : new int[] {0, 1, 8, 64}) {
      GpuReading reading = read(String.valueOf(count), "x", library);
      assertThat(reading.problem()).isEmpty();
      assertThat(reading.gpus())
          .hasSize(count)
          .allMatch(gpu -> gpu.health().healthy())
          .extracting(Gpu::uuid)
          .doesNotHaveDuplicates();
      assertThat(reading.gpus())
          .allSatisfy(
              gpu ->
                  assertThat(gpu.pciBusId().orElseThrow())
                      .matches("[0-9A-F]{8}:[0-9A-F]{2}:00\\.0"))
          .extracting(Gpu::pciBusId)
          .doesNotHaveDuplicates();
      assertThat(reading.links()).hasSize(count * (count - 1) / 2);
    }
  }

  @Test
  void readsTheSameInCAndInJava() {
    List<GpuReading> readings = libraries().map(library -> read("8", "x", library)).toList();
    assertThat(readings.get(0)).isEqualTo(readings.get(1));
  }

  @Test
  void givesTheGpusOfOneSeedTheSameUuidsAndThoseOfAnotherOthers() {
    List<String> uuids = uuids("gpu01");
    assertThat(uuids("gpu01")).isEqualTo(uuids);
    assertThat(uuids("gpu02")).doesNotContainAnyElementsOf(uuids);
  }

  @ParameterizedTest
  @MethodSource("libraries")
  void simulatesTheGpusThatAFileDescribesAndLeavesTheFileAlone(Optional<Path> library)
      throws IOException {
    Path file = Files.writeString(folder.resolve("my gpus"), NvmlStandIn.SPARSE);
    try (GpuSource source = Simulation.open(file.toString(), "x", library)) {
      assertThat(source.simulated()).isTrue();
      assertThat(source.read().gpus()).extracting(Gpu::uuid).containsExactly("GPU-a", "GPU-b");
    }
    assertThat(file).hasContent(NvmlStandIn.SPARSE);
  }

  @ParameterizedTest
  @MethodSource("libraries")
  void removesItsFolderInTheEnd(Optional<Path> library) {
    String seed = UUID.randomUUID().toString();
    GpuSource source = Simulation.open("1", seed, library);
    source.read();
    String description = Simulation.describe(1, seed);
    List<Path> own =
        folders().stream()
            .filter(folder -> description.equals(content(folder.resolve("gpus.txt"))))
            .toList();
    assertThat(own).hasSize(1);

    source.close();

    assertThat(own.get(0)).doesNotExist();
  }

  @Test
  void survivesTheGarbageCollector() throws IOException {
    Path library = libraries().skip(1).findFirst().orElseThrow().orElseThrow();
    try (GpuSource source = Simulation.open("2", "x", Optional.of(library))) {
      // JNA unloads a library that nobody holds. When this one is gone, so is any other.
      String forgotten = Files.copy(library, folder.resolve("held-by-nobody.so")).toString();
      NativeLibrary.getInstance(forgotten);
      await()
          .atMost(Duration.ofSeconds(30))
          .until(
              () -> {
                System.gc();
                return !Files.readString(Path.of("/proc/self/maps")).contains(forgotten);
              });

      assertThat(source.read().gpus()).hasSize(2);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"65", "999", "1000", "99999999999999999999", ""})
  void refusesACountOutOfRange(String count) {
    assertThatThrownBy(() -> Simulation.open(count, "x", Optional.empty()))
        .isInstanceOf(BerthException.class)
        .hasMessage("'" + count + "' simulated GPUs asked, 0 to 64 are possible")
        .extracting(failure -> ((BerthException) failure).reason())
        .isEqualTo(Reason.INVALID);
  }

  @ParameterizedTest
  @ValueSource(strings = {"-1", "four", "no/such/file", "/"})
  void refusesWhatIsNeitherANumberNorAFile(String gpus) {
    assertThatThrownBy(() -> Simulation.open(gpus, "x", Optional.empty()))
        .isInstanceOf(BerthException.class)
        .hasMessage("simulated GPUs: '" + gpus + "' is neither a number nor a readable file")
        .extracting(failure -> ((BerthException) failure).reason())
        .isEqualTo(Reason.INVALID);
  }

  @Test
  void leavesNoFolderBehindWhenItRefuses() {
    List<Path> before = folders();
    for (String bad : List.of("65", "no/such/file")) {
      assertThatThrownBy(() -> Simulation.open(bad, "x", Optional.empty()))
          .isInstanceOf(BerthException.class);
    }
    // Other processes may be making folders of their own, which do not stay empty.
    await()
        .untilAsserted(
            () ->
                assertThat(folders())
                    .filteredOn(folder -> !before.contains(folder) && isEmpty(folder))
                    .isEmpty());
  }

  private static GpuReading read(String gpus, String seed, Optional<Path> library) {
    try (GpuSource source = Simulation.open(gpus, seed, library)) {
      return source.read();
    }
  }

  private static List<String> uuids(String seed) {
    return read("4", seed, Optional.empty()).gpus().stream().map(Gpu::uuid).toList();
  }

  private static List<Path> folders() {
    try (Stream<Path> files = Files.list(Path.of(System.getProperty("java.io.tmpdir")))) {
      return files
          .filter(file -> file.getFileName().toString().startsWith("berth-simulated-gpus"))
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static boolean isEmpty(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.findAny().isEmpty();
    } catch (NoSuchFileException e) {
      return false;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String content(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      return "";
    }
  }
}
