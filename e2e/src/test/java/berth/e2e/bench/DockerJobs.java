package berth.e2e.bench;

import berth.e2e.bench.Job.Outcome;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/** {@code docker run --rm}, of the engine that DOCKER_HOST names. */
final class DockerJobs implements Jobs {
  private final String image;

  DockerJobs(String image) {
    this.image = image;
  }

  @Override
  public Outcome run(Job job) {
    List<String> words = new ArrayList<>(List.of("docker", "run", "--rm"));
    words.addAll(List.of("--network", job.network().toString(), image));
    words.addAll(job.command());
    byte[] piece = new byte[128 << 10];
    long start = System.nanoTime();
    try {
      Process process =
          new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      long first = 0;
      long bytes = 0;
      try (InputStream out = process.getInputStream()) {
        for (int count; (count = out.read(piece)) >= 0; bytes += count) {
          if (first == 0) {
            first = System.nanoTime() - start;
          }
        }
      }
      if (process.waitFor() != 0) {
        throw new IllegalStateException(String.join(" ", words) + " failed");
      }
      return new Outcome(System.nanoTime() - start, first, bytes);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** How many containers of Berth there are, running or not. */
  int leftByBerth() {
    try {
      Process process =
          new ProcessBuilder("docker", "ps", "-aq", "--filter", "label=berth.server").start();
      try (InputStream out = process.getInputStream()) {
        return (int) new String(out.readAllBytes()).lines().count();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {}
}
