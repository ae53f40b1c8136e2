package berth.fake;

import berth.v1.UploadBundleRequest;
import berth.v1.UploadBundleResponse;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Takes a bundle as a server does, and remembers how it came. */
public class Upload implements StreamObserver<UploadBundleRequest> {
  public final ByteArrayOutputStream content = new ByteArrayOutputStream();
  public final List<Integer> pieces = new CopyOnWriteArrayList<>();
  private final StreamObserver<UploadBundleResponse> answer;
  private final boolean known;
  private volatile String digest = "";

  /**
   * @param known whether to answer as soon as the digest is there
   */
  public Upload(StreamObserver<UploadBundleResponse> answer, boolean known) {
    this.answer = answer;
    this.known = known;
  }

  @Override
  public void onNext(UploadBundleRequest request) {
    if (request.hasDigest()) {
      digest = request.getDigest();
      if (known) {
        answer();
      }
      return;
    }
    pieces.add(request.getData().size());
    try {
      request.getData().writeTo(content);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void onError(Throwable why) {}

  @Override
  public void onCompleted() {
    if (!known) {
      answer();
    }
  }

  private void answer() {
    answer.onNext(
        UploadBundleResponse.newBuilder()
            .setDigest(digest)
            .setBytes(content.size())
            .setKnown(known)
            .build());
    answer.onCompleted();
  }
}
