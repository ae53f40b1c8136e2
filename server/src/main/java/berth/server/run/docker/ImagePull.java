package berth.server.run.docker;

import berth.server.run.RunEngine.Pull;
import com.github.dockerjava.api.async.ResultCallbackTemplate;
import com.github.dockerjava.api.model.PullResponseItem;
import com.github.dockerjava.api.model.ResponseItem;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Adds up what the engine tells of the layers of an image while it fetches them. */
final class ImagePull extends ResultCallbackTemplate<ImagePull, PullResponseItem> {
  private final String image;
  private final Consumer<Pull> progress;
  private final Set<String> layers = new LinkedHashSet<>();
  private final Set<String> done = new LinkedHashSet<>();
  private final Map<String, Long> received = new HashMap<>();
  private final Map<String, Long> sizes = new HashMap<>();
  private final CountDownLatch over = new CountDownLatch(1);
  private Optional<String> failure = Optional.empty();
  private volatile long newsNanos = System.nanoTime();

  ImagePull(String image, Consumer<Pull> progress) {
    this.image = image;
    this.progress = progress;
  }

  /** What the engine said went wrong. */
  synchronized Optional<String> failure() {
    return failure;
  }

  /**
   * Waits for the end; false if the time was not enough. The library's own wait would break the
   * fetching off then.
   */
  boolean awaitEnd(Duration atMost) throws InterruptedException {
    if (!over.await(atMost.toNanos(), TimeUnit.NANOSECONDS)) {
      return false;
    }
    awaitCompletion();
    return true;
  }

  @Override
  public void onComplete() {
    super.onComplete();
    over.countDown();
  }

  @Override
  public void onError(Throwable why) {
    super.onError(why);
    over.countDown();
  }

  /** How long the engine has said nothing. */
  Duration silence() {
    return Duration.ofNanos(System.nanoTime() - newsNanos);
  }

  @Override
  public void onNext(PullResponseItem item) {
    newsNanos = System.nanoTime();
    synchronized (this) {
      if (item.isErrorIndicated()) {
        failure =
            Optional.of(
                item.getErrorDetail() == null
                    ? String.valueOf(item.getStatus())
                    : String.valueOf(item.getErrorDetail().getMessage()));
        return;
      }
      String layer = item.getId();
      String status = item.getStatus();
      if (layer == null || status == null || status.startsWith("Pulling from")) {
        return;
      }
      layers.add(layer);
      ResponseItem.ProgressDetail detail = item.getProgressDetail();
      if (status.equals("Downloading") && detail != null && detail.getTotal() != null) {
        received.put(layer, detail.getCurrent());
        sizes.put(layer, detail.getTotal());
      } else if (status.equals("Pull complete") || status.equals("Already exists")) {
        done.add(layer);
        received.put(layer, sizes.getOrDefault(layer, 0L));
      } else if (status.equals("Download complete")) {
        received.put(layer, sizes.getOrDefault(layer, 0L));
      }
    }
    progress.accept(now());
  }

  private synchronized Pull now() {
    return new Pull(
        image,
        done.size(),
        layers.size(),
        received.values().stream().mapToLong(Long::longValue).sum(),
        sizes.values().stream().mapToLong(Long::longValue).sum());
  }
}
