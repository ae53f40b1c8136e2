package berth.e2e.runs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/** Describes the GPUs of a machine that has none; see {@code nvml_sim.c}. */
final class GpuFile {
  private final Path file;
  private final int count;

  GpuFile(Path folder, int count) {
    this.file = folder.resolve("gpus.txt");
    this.count = count;
    noProcesses();
  }

  Path path() {
    return file;
  }

  static String uuid(int gpu) {
    return "GPU-00000000-0000-4000-8000-00000000000" + gpu;
  }

  void noProcesses() {
    write(-1, "");
  }

  /** Lets a process use a GPU, and no others any. */
  void processOn(int gpu, int pid) {
    write(gpu, "process " + pid + " 100\n");
  }

  /** Lets a GPU report so much use, and the others none of theirs. */
  void useOf(int gpu, int percent) {
    write(gpu, "utilization " + percent + " 0\n");
  }

  private void write(int gpu, String line) {
    StringBuilder text = new StringBuilder("driver 535.104.05\ncuda 12020\n");
    for (int index = 0; index < count; index++) {
      text.append("gpu ").append(uuid(index)).append("\nname NVIDIA A100\n");
      text.append("bus 0000:0").append(index).append(":00.0\nmemory 40960 0\nprocesses\n");
      text.append(index == gpu ? line : "");
    }
    try {
      Path next = Files.writeString(file.resolveSibling("gpus.new"), text);
      Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
