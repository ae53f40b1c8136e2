package berth.host.gpu;

import com.sun.jna.NativeLibrary;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Objects;
import java.util.function.LongSupplier;

/**
 * The compiled stand-in for NVML and the file that describes its GPUs. Each is a copy of its own,
 * because the library has global state.
 */
public final class NvmlStandIn implements AutoCloseable {
  /** Two GPUs with everything a driver can tell. */
  public static final String RICH =
      """
      driver 550.54.15
      cuda 12040
      gpu GPU-a
        name NVIDIA A100-SXM4-80GB
        bus 00000000:07:00.0
        memory 81920 1024
        utilization 37 12
        temperature 41
        power 87000 400000
        ecc 3 1
        mig 1
        process 4711 512
        process 99 -
        nvlink 1 4
        pcie 1 10
      gpu GPU-b
        name NVIDIA A100-SXM4-80GB
        bus 00000000:0F:00.0
        memory 81920 8
        utilization 0 0
        temperature 30
        power 52000 400000
        ecc 0 0
        mig 0
        processes
        nvlink 0 4
      """;

  /** Two GPUs that answer nothing but who they are. */
  public static final String SPARSE = "gpu GPU-a\ngpu GPU-b\n";

  // Held, since JNA unloads a library that nobody holds.
  private final NvmlLibrary library;
  private final Path description;

  /**
   * @param folder an empty folder
   * @param generation the age of the driver: 1 has only the plain functions, 2 has _v2, 3 has _v3
   */
  public NvmlStandIn(Path folder, int generation, String text) {
    String libraries = Objects.requireNonNull(System.getProperty("berth.nvmlSim"), "berth.nvmlSim");
    description = folder.resolve("gpus.txt");
    describe(text);
    Path copy = folder.resolve(NvmlGpus.LIBRARY);
    try {
      Files.copy(Path.of(libraries, String.valueOf(generation), NvmlGpus.LIBRARY), copy);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    library = NvmlGpus.load(copy.toString());
    NativeLibrary.getInstance(copy.toString())
        .getFunction("nvmlSimDescribe")
        .invoke(new Object[] {description.toString()});
  }

  /** Replaces the description as a whole: nobody sees half of one. */
  public void describe(String text) {
    Path whole = description.resolveSibling("gpus.txt.new");
    try {
      Files.writeString(whole, text);
      Files.move(whole, description, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public Path description() {
    return description;
  }

  public NvmlLibrary library() {
    return library;
  }

  /** A source that initialises NVML again on every read, if there is a reason to. */
  public NvmlGpus gpus() {
    return gpus(Duration.ZERO, System::nanoTime);
  }

  public NvmlGpus gpus(Duration retryAfter, LongSupplier nanoClock) {
    return new NvmlGpus(this::library, true, retryAfter, nanoClock);
  }

  /** Ends a hang, so that whoever is caught in it can stop. */
  @Override
  public void close() {
    describe("");
  }
}
