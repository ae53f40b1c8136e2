package berth.e2e.clusters;

import static org.awaitility.Awaitility.await;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Sees which containers have which GPUs of their machine, as the engines of the machines tell it,
 * and whether a GPU ever was in two. Any thread may call.
 */
final class GpuReferee implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final String EVENT =
      "{{.Status}} {{.ID}} {{index .Actor.Attributes \"berth.gpus\"}}";

  private final List<Process> watchers = new ArrayList<>();
  private final List<String> overlaps = new CopyOnWriteArrayList<>();
  private final AtomicInteger starts = new AtomicInteger();
  private final AtomicInteger ends = new AtomicInteger();

  /** Watches from now on. */
  GpuReferee(List<ClusterMachine> machines) throws IOException {
    // So that nothing is missed until the watchers are there.
    String now = Long.toString(Instant.now().getEpochSecond());
    for (ClusterMachine machine : machines) {
      Process watcher =
          new ProcessBuilder(
                  "docker",
                  "-H",
                  machine.engine().host(),
                  "events",
                  "--since",
                  now,
                  "--filter",
                  "event=start",
                  "--filter",
                  "event=die",
                  "--format",
                  EVENT)
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      watchers.add(watcher);
      Thread thread = new Thread(() -> watch(machine.name(), watcher), "gpus-" + machine.name());
      thread.setDaemon(true);
      thread.start();
    }
  }

  private void watch(String machine, Process watcher) {
    Map<String, Set<String>> running = new HashMap<>();
    try (BufferedReader events = watcher.inputReader()) {
      for (String line; (line = events.readLine()) != null; ) {
        String[] words = line.split(" ");
        if (words[0].equals("die")) {
          running.remove(words[1]);
          ends.incrementAndGet();
        } else {
          Set<String> gpus =
              Stream.of(words.length > 2 ? words[2].split(",") : new String[0])
                  .collect(Collectors.toSet());
          running.forEach(
              (other, theirs) ->
                  gpus.stream()
                      .filter(theirs::contains)
                      .forEach(gpu -> overlaps.add(overlap(machine, gpu, other, words[1]))));
          running.put(words[1], gpus);
          starts.incrementAndGet();
        }
      }
    } catch (IOException e) {
      if (watcher.isAlive()) {
        throw new UncheckedIOException(e);
      }
    }
  }

  private static String overlap(String machine, String gpu, String first, String second) {
    return "GPU " + gpu + " of " + machine + " is in " + first + " and in " + second;
  }

  /** How many containers have started since it watches. */
  int starts() {
    return starts.get();
  }

  /** What it has seen that must not be; to be called when no container is left. */
  List<String> overlaps() {
    // What it is told comes a moment after it was.
    await().atMost(PATIENCE).until(() -> ends.get() == starts.get());
    if (!watchers.stream().allMatch(Process::isAlive)) {
      throw new AssertionError("the referee does not see all machines");
    }
    return List.copyOf(overlaps);
  }

  @Override
  public void close() {
    watchers.forEach(Process::destroyForcibly);
  }
}
