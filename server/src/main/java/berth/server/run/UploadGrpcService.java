package berth.server.run;

import berth.rpc.BerthException;
import berth.rpc.ClientCount;
import berth.rpc.Reason;
import berth.rpc.Statuses;
import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.RejectedExecutionException;

/**
 * One upload of a bundle. It is written as it comes, by the threads of calls; what it is, is
 * checked at its end by a few threads that have nothing else to do, because a small bundle may be a
 * large one packed.
 */
final class UploadGrpcService implements StreamObserver<UploadBundleRequest> {
  private final ServerCallStreamObserver<UploadBundleResponse> observer;
  private final Runs runs;
  private final ClientCount uploads;
  private final SocketAddress client;
  private final Duration idle;
  private Optional<Bundles.Upload> upload = Optional.empty();
  private boolean counted;
  private Runnable unwatch = () -> {};
  private long heardNanos = System.nanoTime();
  // From here on only the thread that checks it may touch the upload.
  private boolean checking;
  private boolean over;

  /**
   * @param uploads counts those that are open
   * @param idle how long nothing may come before the upload is given up
   */
  UploadGrpcService(
      StreamObserver<UploadBundleResponse> observer,
      Runs runs,
      ClientCount uploads,
      SocketAddress client,
      Duration idle) {
    this.observer = (ServerCallStreamObserver<UploadBundleResponse>) observer;
    this.runs = runs;
    this.uploads = uploads;
    this.client = client;
    this.idle = idle;
    // Without a handler gRPC would throw at whoever answers after the end.
    this.observer.setOnCancelHandler(this::gone);
    synchronized (this) {
      unwatch = runs.later(idle, this::look);
    }
  }

  @Override
  public synchronized void onNext(UploadBundleRequest request) {
    if (over || checking) {
      return;
    }
    try {
      if (request.hasDigest()) {
        heardNanos = System.nanoTime();
        begin(request.getDigest());
      } else if (upload.isEmpty()) {
        throw new BerthException(Reason.INVALID, "the digest must come before the data");
      } else if (!request.getData().isEmpty()) {
        heardNanos = System.nanoTime();
        upload.get().write(request.getData().asReadOnlyByteBuffer());
      }
    } catch (RuntimeException e) {
      fail(e);
    }
  }

  private void begin(String digest) {
    if (upload.isPresent()) {
      throw new BerthException(Reason.INVALID, "a second digest came in one upload");
    }
    if (runs.bundles().has(digest)) {
      answer(digest, 0, true);
      return;
    }
    uploads
        .add(client)
        .ifPresent(
            why -> {
              throw new BerthException(Reason.EXHAUSTED, "too many uploads: " + why);
            });
    counted = true;
    upload = Optional.of(runs.bundles().begin(digest));
  }

  @Override
  public void onError(Throwable why) {
    gone();
  }

  @Override
  public synchronized void onCompleted() {
    if (over || checking) {
      return;
    }
    try {
      if (upload.isEmpty()) {
        throw new BerthException(Reason.INVALID, "the upload is empty");
      }
      runs.bundleChecks().execute(this::check);
      checking = true;
    } catch (RejectedExecutionException e) {
      fail(new BerthException(Reason.UNAVAILABLE, "this server is stopping", e));
    } catch (RuntimeException e) {
      fail(e);
    }
  }

  private void check() {
    synchronized (this) {
      if (over) {
        // Gone while it waited for its turn.
        discard();
        return;
      }
    }
    Bundles.Bundle bundle;
    try {
      bundle = upload.get().finish();
    } catch (RuntimeException | Error e) {
      fail(e);
      return;
    }
    answer(bundle.digest(), bundle.bytes(), false);
  }

  private synchronized void gone() {
    if (!over) {
      over = true;
      if (!checking) {
        discard();
      }
    }
  }

  private void look() {
    synchronized (this) {
      if (over || checking) {
        return;
      }
      Duration left = idle.minusNanos(System.nanoTime() - heardNanos);
      if (left.isNegative() || left.isZero()) {
        fail(
            new BerthException(
                Reason.TIMED_OUT, "no data of the bundle for " + idle.toSeconds() + " s"));
      } else {
        unwatch = runs.later(left, this::look);
      }
    }
  }

  private synchronized void answer(String digest, long bytes, boolean known) {
    discard();
    if (!over) {
      over = true;
      observer.onNext(
          UploadBundleResponse.newBuilder()
              .setDigest(digest)
              .setBytes(bytes)
              .setKnown(known)
              .build());
      observer.onCompleted();
    }
  }

  private synchronized void fail(Throwable why) {
    discard();
    if (!over) {
      over = true;
      observer.onError(Statuses.toException(why));
    }
  }

  // What is finished stays.
  private void discard() {
    unwatch.run();
    upload.ifPresent(Bundles.Upload::close);
    if (counted) {
      counted = false;
      uploads.remove(client);
    }
  }
}
