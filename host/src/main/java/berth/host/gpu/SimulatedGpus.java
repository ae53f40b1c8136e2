package berth.host.gpu;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * GPUs that a text file describes, without any native code: the equivalent, for machines without a
 * C compiler, of the stand-in library in {@code host/src/nvmlSim}, which documents the file. One
 * test holds both to the same readings.
 */
final class SimulatedGpus implements GpuSource {
  private static final Duration LOOK_AGAIN = Duration.ofMillis(20);
  private static final int DRIVER_NOT_LOADED = 9;

  /** The lines of one GPU, or of the host: values by first word, in order. */
  private record Block(Map<String, List<String[]>> lines) {
    Block() {
      this(new HashMap<>());
    }

    void add(String key, String rest) {
      lines.computeIfAbsent(key, k -> new ArrayList<>()).add(rest.split("\\s+"));
    }

    List<String[]> all(String key) {
      return lines.getOrDefault(key, List.of());
    }

    Optional<String[]> last(String key) {
      List<String[]> found = all(key);
      return found.isEmpty() ? Optional.empty() : Optional.of(found.get(found.size() - 1));
    }

    Optional<String> text(String key) {
      return last(key).map(words -> String.join(" ", words));
    }

    OptionalInt number(String key, int position) {
      Optional<String[]> words = last(key);
      return words.isPresent()
          ? OptionalInt.of(Integer.parseInt(words.get()[position]))
          : OptionalInt.empty();
    }

    /** A return code of NVML; 0, success, stands also for no such line. */
    int code(String key) {
      return number(key, 0).orElse(NvmlLibrary.NVML_SUCCESS);
    }
  }

  private record Host(Block itself, List<Block> gpus) {}

  private final Path file;
  private final Map<String, Integer> reportedXid = new HashMap<>();
  private final Map<String, Gpu> known = new LinkedHashMap<>();

  SimulatedGpus(Path file) {
    this.file = file;
    // What happened before we looked is not news.
    parse().ifPresent(host -> host.gpus.forEach(gpu -> newXid(gpu)));
  }

  @Override
  public boolean simulated() {
    return true;
  }

  @Override
  public GpuReading read() {
    Optional<Host> host = parse();
    int failure = host.isEmpty() ? DRIVER_NOT_LOADED : host.get().itself.code("init");
    if (failure != NvmlLibrary.NVML_SUCCESS) {
      return GpuReading.unreadable(failure("nvmlInit", failure).getMessage());
    }
    List<Block> blocks = host.get().gpus;
    List<Gpu> gpus = new ArrayList<>();
    for (int index = 0; index < blocks.size(); index++) {
      Gpu gpu = gpu(index, blocks.get(index));
      if (gpu.health().healthy()) {
        known.put(gpu.uuid(), gpu);
      }
      gpus.add(gpu);
    }
    for (Gpu gone : known.values()) {
      if (gpus.stream().noneMatch(gpu -> gpu.uuid().equals(gone.uuid()))) {
        gpus.add(
            silent(
                gone, new GpuHealth(GpuHealth.State.LOST, "the driver no longer lists this GPU")));
      }
    }
    gpus.sort(Comparator.comparingInt(Gpu::index).thenComparing(Gpu::uuid));
    Block itself = host.get().itself;
    return new GpuReading(
        itself.text("driver"),
        itself.text("cuda").map(number -> GpuReading.cudaVersion(Integer.parseInt(number))),
        Optional.empty(),
        gpus,
        links(blocks));
  }

  @Override
  public Optional<Xid> awaitXid(Duration timeout) throws InterruptedException {
    long deadline = System.nanoTime() + timeout.toNanos();
    do {
      for (Block gpu : parse().map(Host::gpus).orElse(List.of())) {
        Optional<Xid> xid = newXid(gpu);
        if (xid.isPresent()) {
          return xid;
        }
      }
      long left = deadline - System.nanoTime();
      Thread.sleep(Math.max(1, Math.min(LOOK_AGAIN.toMillis(), left / 1_000_000)));
    } while (System.nanoTime() - deadline < 0);
    return Optional.empty();
  }

  @Override
  public void close() {}

  private Optional<Xid> newXid(Block gpu) {
    String uuid = gpu.text("gpu").orElseThrow();
    return gpu.all("xid").stream()
        .filter(words -> Integer.parseInt(words[0]) > reportedXid.getOrDefault(uuid, 0))
        .max(Comparator.comparingInt(words -> Integer.parseInt(words[0])))
        .map(
            words -> {
              reportedXid.put(uuid, Integer.parseInt(words[0]));
              return new Xid(uuid, Integer.parseInt(words[1]));
            });
  }

  private Gpu gpu(int index, Block block) {
    String uuid = block.text("gpu").orElseThrow();
    int code = block.code("status");
    if (code != NvmlLibrary.NVML_SUCCESS) {
      Gpu nobody = Gpu.silent(index, "", Optional.empty(), Optional.empty(), GpuHealth.HEALTHY);
      return silent(
          known.getOrDefault(uuid, nobody), failure("nvmlDeviceGetHandleByIndex", code).health());
    }
    return new Gpu(
        index,
        uuid,
        block.text("bus").map(NvmlSession::busId),
        block.text("name"),
        block.last("memory").map(words -> memory(mib(words[0]), mib(words[1]))),
        block
            .last("utilization")
            .map(
                words ->
                    new Gpu.Utilization(Integer.parseInt(words[0]), Integer.parseInt(words[1]))),
        block.number("temperature", 0),
        block.number("power", 0),
        block.number("power", 1),
        processes(block),
        optionalLong(block.number("ecc", 0)),
        optionalLong(block.number("ecc", 1)),
        block.text("mig").map("1"::equals),
        GpuHealth.answering(
            block
                .last("recovery_action")
                .map(words -> RecoveryAction.ofNvml(Integer.parseInt(words[0])))));
  }

  private static Optional<List<Gpu.Process>> processes(Block block) {
    if (block.all("process").isEmpty() && block.all("processes").isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(
        block.all("process").stream()
            .map(
                words ->
                    new Gpu.Process(
                        Integer.parseInt(words[0]),
                        words[1].equals("-")
                            ? OptionalLong.empty()
                            : OptionalLong.of(mib(words[1])),
                        Optional.empty(),
                        Optional.empty()))
            .sorted(Comparator.comparingInt(Gpu.Process::pid))
            .toList());
  }

  private static List<GpuLink> links(List<Block> gpus) {
    List<GpuLink> links = new ArrayList<>();
    for (int a = 0; a < gpus.size(); a++) {
      for (int b = a + 1; b < gpus.size(); b++) {
        if (gpus.get(a).code("status") != NvmlLibrary.NVML_SUCCESS
            || gpus.get(b).code("status") != NvmlLibrary.NVML_SUCCESS) {
          continue;
        }
        int direct = toward(gpus.get(a), "nvlink", b).orElse(0);
        int switched =
            Math.min(
                gpus.get(a).number("nvswitch", 0).orElse(0),
                gpus.get(b).number("nvswitch", 0).orElse(0));
        OptionalInt level = toward(gpus.get(a), "pcie", b);
        if (level.isEmpty()) {
          level = toward(gpus.get(b), "pcie", a);
        }
        Optional<GpuLink.PcieDistance> pcie =
            level.isPresent()
                ? GpuLink.PcieDistance.ofNvmlLevel(level.getAsInt())
                : Optional.empty();
        if (direct + switched > 0 || pcie.isPresent()) {
          links.add(new GpuLink(a, b, direct + switched, pcie));
        }
      }
    }
    return links;
  }

  private static OptionalInt toward(Block gpu, String key, int other) {
    return gpu.all(key).stream()
        .filter(words -> Integer.parseInt(words[0]) == other)
        .mapToInt(words -> Integer.parseInt(words[1]))
        .findFirst();
  }

  private Optional<Host> parse() {
    List<String> lines;
    try {
      lines = Files.readAllLines(file);
    } catch (NoSuchFileException e) {
      return Optional.empty();
    } catch (IOException e) {
      throw new IllegalStateException("cannot read " + file, e);
    }
    Host host = new Host(new Block(), new ArrayList<>());
    Block current = host.itself;
    for (String line : lines) {
      String[] words = line.trim().split("\\s+", 2);
      if (words[0].isEmpty() || words[0].startsWith("#")) {
        continue;
      }
      if (words[0].equals("gpu")) {
        current = new Block();
        host.gpus.add(current);
      }
      current.add(words[0], words.length > 1 ? words[1] : "");
    }
    return Optional.of(host);
  }

  private static Gpu silent(Gpu who, GpuHealth health) {
    return Gpu.silent(who.index(), who.uuid(), who.pciBusId(), who.name(), health);
  }

  private static NvmlException failure(String function, int code) {
    String meaning =
        switch (code) {
          case DRIVER_NOT_LOADED -> "Driver Not Loaded";
          case NvmlLibrary.NVML_ERROR_GPU_IS_LOST -> "GPU is lost";
          case NvmlLibrary.NVML_ERROR_RESET_REQUIRED -> "GPU requires reset";
          default -> "Unknown Error";
        };
    return new NvmlException(function, code, meaning);
  }

  private static Gpu.Memory memory(long total, long used) {
    return new Gpu.Memory(total, used, total - used);
  }

  private static long mib(String text) {
    return Long.parseLong(text) << 20;
  }

  private static OptionalLong optionalLong(OptionalInt number) {
    return number.isPresent() ? OptionalLong.of(number.getAsInt()) : OptionalLong.empty();
  }
}
