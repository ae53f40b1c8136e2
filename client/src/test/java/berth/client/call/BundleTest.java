package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.fake.FakeRuns;
import berth.fake.Upload;
import berth.rpc.BerthException;
import berth.v1.UploadBundleResponse;
import io.grpc.stub.ServerCallStreamObserver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A bundle that several threads send. */
class BundleTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  @TempDir private Path folder;
  private final FakeRuns server = new FakeRuns();
  private final List<RunClient> clients = new ArrayList<>();
  private final List<Sender> senders = new ArrayList<>();
  private final BlockingQueue<ServerCallStreamObserver<UploadBundleResponse>> uploads =
      new LinkedBlockingQueue<>();
  private Bundle bundle;

  /** A thread that sends the bundle. */
  private static final class Sender extends Thread {
    private final CompletableFuture<String> digest = new CompletableFuture<>();
    private final Bundle bundle;
    private final RunClient client;

    Sender(Bundle bundle, RunClient client) {
      this.bundle = bundle;
      this.client = client;
    }

    @Override
    public void run() {
      try {
        digest.complete(bundle.upload(client, TIMEOUT));
      } catch (Exception e) {
        digest.completeExceptionally(e);
      }
    }
  }

  @BeforeEach
  void hold() throws Exception {
    Files.writeString(folder.resolve("train.py"), "print(1)\n");
    bundle = new Bundle(folder);
    // Takes everything, and answers when the test does.
    server.onUpload =
        answer -> {
          uploads.add(answer);
          return new Upload(answer, false) {
            @Override
            public void onCompleted() {}
          };
        };
  }

  @AfterEach
  void close() throws Exception {
    for (Sender sender : senders) {
      sender.join();
    }
    bundle.close();
    clients.forEach(RunClient::close);
    server.close();
  }

  @Test
  void thoseWhoSendToOneServerAtATimeShareOneUpload() throws Exception {
    Sender first = send();
    var upload = uploads.poll(20, TimeUnit.SECONDS);
    List<Sender> others = List.of(send(), send(), send());
    others.forEach(BundleTest::awaitWaiting);

    answer(upload);

    for (Sender other : others) {
      assertThat(other.digest.get(20, TimeUnit.SECONDS)).isEqualTo(first.digest.get());
    }
    assertThat(uploads).isEmpty();
  }

  @Test
  void aLaterCallAsksAgainWhetherTheServerHasIt() throws Exception {
    for (int i = 0; i < 2; i++) {
      Sender sender = send();
      answer(uploads.poll(20, TimeUnit.SECONDS));
      assertThat(sender.digest.get(20, TimeUnit.SECONDS)).matches("[0-9a-f]{64}");
    }
  }

  @Test
  void anotherTakesOverWhenWhoeverSendsItIsInterrupted() throws Exception {
    Sender first = send();
    uploads.poll(20, TimeUnit.SECONDS);
    Sender second = send();
    awaitWaiting(second);

    first.interrupt();
    answer(uploads.poll(20, TimeUnit.SECONDS));

    assertThat(second.digest.get(20, TimeUnit.SECONDS)).matches("[0-9a-f]{64}");
    assertThatThrownBy(first.digest::get).hasRootCauseInstanceOf(InterruptedException.class);
  }

  @Test
  void aRefusalIsEverybodysWhoShares() throws Exception {
    Sender first = send();
    var upload = uploads.poll(20, TimeUnit.SECONDS);
    Sender second = send();
    awaitWaiting(second);

    FakeRuns.fail(upload, berth.rpc.Reason.EXHAUSTED, "too large");

    for (Sender sender : List.of(first, second)) {
      assertThatThrownBy(() -> sender.digest.get(20, TimeUnit.SECONDS))
          .cause()
          .isInstanceOf(BerthException.class)
          .hasMessage("too large");
    }
  }

  @Test
  void anotherServerDoesNotWaitForTheFirst() throws Exception {
    Sender first = send();
    var upload = uploads.poll(20, TimeUnit.SECONDS);
    try (FakeRuns other = new FakeRuns();
        RunClient client = RunClient.of(other.address())) {
      other.onUpload = answer -> new Upload(answer, false);

      assertThat(bundle.upload(client, TIMEOUT)).matches("[0-9a-f]{64}");
    }
    assertThat(first.digest).isNotDone();
    answer(upload);
  }

  // A client of its own for each, as runs have.
  private Sender send() {
    RunClient client = RunClient.of(server.address());
    clients.add(client);
    Sender sender = new Sender(bundle, client);
    senders.add(sender);
    sender.start();
    return sender;
  }

  private static void awaitWaiting(Sender sender) {
    await().until(() -> sender.getState() == Thread.State.WAITING);
  }

  private static void answer(ServerCallStreamObserver<UploadBundleResponse> upload) {
    upload.onNext(UploadBundleResponse.getDefaultInstance());
    upload.onCompleted();
  }
}
