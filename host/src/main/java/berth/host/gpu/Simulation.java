package berth.host.gpu;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * GPUs for trying Berth without any: through the C stand-in for NVML where the build made it, so
 * that the native code runs too, else through {@link SimulatedGpus}. Both read the same
 * description.
 */
final class Simulation implements GpuSource {
  private static final Logger log = LoggerFactory.getLogger(Simulation.class);
  private static final int MOST_GPUS = 64;

  // Re-initialising the stand-in costs nothing, so a GPU that is described as found again is back
  // soon.
  private static final Duration RETRY = Duration.ofSeconds(1);

  private final GpuSource source;
  private final Path folder;

  private Simulation(GpuSource source, Path folder) {
    this.source = source;
    this.folder = folder;
  }

  /**
   * @param gpus how many, or the file that describes them
   * @param seed GPUs of the same seed have the same UUIDs
   */
  static GpuSource open(String gpus, String seed) {
    return open(gpus, seed, nativeLibrary());
  }

  static GpuSource open(String gpus, String seed, Optional<Path> nativeLibrary) {
    // Refuses before anything is made that would have to be removed.
    boolean counted = gpus.chars().allMatch(Character::isDigit);
    String text = counted ? describe(count(gpus), seed) : "";
    Path file = counted ? Path.of("gpus.txt") : existing(gpus);
    try {
      Path folder = Files.createTempDirectory("berth-simulated-gpus");
      Path description = counted ? Files.writeString(folder.resolve(file), text) : file;
      log.info("simulated GPUs, described by {}; edit that file to change them", description);
      return new Simulation(
          nativeLibrary.isPresent()
              ? nativeSource(nativeLibrary.get(), folder, description)
              : new SimulatedGpus(description),
          folder);
    } catch (IOException e) {
      throw new BerthException(Reason.INTERNAL, "cannot set up simulated GPUs: " + e, e);
    }
  }

  private static GpuSource nativeSource(Path library, Path folder, Path description)
      throws IOException {
    // The stand-in has global state, and a library is loaded once per file: a copy of its own keeps
    // two apart.
    Path copy = Files.copy(library, folder.resolve(NvmlGpus.LIBRARY));
    // JNA unloads a library that nobody holds, and the stand-in would forget what it was told.
    NvmlLibrary held = NvmlGpus.load(copy.toString());
    NativeLibrary.getInstance(copy.toString())
        .getFunction("nvmlSimDescribe")
        .invoke(new Object[] {description.toString()});
    return new NvmlGpus(() -> held, true, RETRY, System::nanoTime);
  }

  /** The stand-in of this installation, unless it was built without a C compiler. */
  private static Optional<Path> nativeLibrary() {
    return Optional.ofNullable(System.getProperty("berth.home"))
        .map(home -> Path.of(home, "lib", "nvml-sim", NvmlGpus.LIBRARY))
        .filter(Files::exists);
  }

  private static int count(String gpus) {
    if (gpus.isEmpty() || gpus.length() > 3 || Integer.parseInt(gpus) > MOST_GPUS) {
      throw new BerthException(
          Reason.INVALID,
          "'" + gpus + "' simulated GPUs asked, 0 to " + MOST_GPUS + " are possible");
    }
    return Integer.parseInt(gpus);
  }

  private static Path existing(String file) {
    Path path = Path.of(file).toAbsolutePath();
    if (!Files.isReadable(path) || Files.isDirectory(path)) {
      throw new BerthException(
          Reason.INVALID, "simulated GPUs: '" + file + "' is neither a number nor a readable file");
    }
    return path;
  }

  /** A host as many labs have it: NVLink bridges between neighbours, two PCIe trees. */
  static String describe(int count, String seed) {
    StringBuilder text = new StringBuilder();
    text.append("# Simulated GPUs. Changes to this file take effect at once;")
        .append(" host/src/nvmlSim/nvml_sim.c documents it.\n")
        .append("driver 550.54.15\ncuda 12040\n");
    for (int i = 0; i < count; i++) {
      UUID uuid = UUID.nameUUIDFromBytes((seed + "/" + i).getBytes(StandardCharsets.UTF_8));
      text.append("\ngpu GPU-").append(uuid).append('\n');
      text.append("  name Simulated A100 80GB\n");
      // 31 of them fill the buses of one PCI domain.
      text.append(String.format("  bus %08X:%02X:00.0\n", i / 31, 0x07 + 8 * (i % 31)));
      text.append("  memory 81920 ").append(8 + i).append('\n');
      text.append("  utilization 0 0\n");
      text.append("  temperature ").append(31 + i).append('\n');
      text.append("  power ").append(52000 + 700 * i).append(" 400000\n");
      text.append("  ecc 0 0\n  mig 0\n  processes\n");
      int neighbour = i ^ 1;
      if (neighbour < count) {
        text.append("  nvlink ").append(neighbour).append(" 4\n");
      }
      for (int other = i + 1; other < count; other++) {
        int level = i / 2 == other / 2 ? 10 : i / 4 == other / 4 ? 30 : 50;
        text.append("  pcie ").append(other).append(' ').append(level).append('\n');
      }
    }
    return text.toString();
  }

  @Override
  public boolean simulated() {
    return true;
  }

  @Override
  public GpuReading read() {
    return source.read();
  }

  @Override
  public Optional<Xid> awaitXid(Duration timeout) throws InterruptedException {
    return source.awaitXid(timeout);
  }

  @Override
  public void close() {
    source.close();
    for (String file : new String[] {"gpus.txt", NvmlGpus.LIBRARY, ""}) {
      try {
        Files.deleteIfExists(folder.resolve(file));
      } catch (IOException e) {
        log.warn("cannot remove {}: {}", folder.resolve(file), e.getMessage());
      }
    }
  }
}
