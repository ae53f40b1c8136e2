package berth.rpc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import berth.v1.GpuReport;
import berth.v1.GpuServiceGrpc.GpuServiceImplBase;
import berth.v1.ListGpusRequest;
import berth.v1.ListGpusResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

class RepliesTest {
  private static final ListGpusResponse REPLY =
      ListGpusResponse.newBuilder().setReport(GpuReport.newBuilder().setServer("gpu01")).build();

  private final List<String> answers = new CopyOnWriteArrayList<>();

  @Test
  void answersOnceWithTheValue() {
    assertThat(call(() -> REPLY)).isEqualTo(REPLY);
    assertThat(answers).containsExactly("value", "completed");
  }

  @Test
  void answersOnceWithTheMessageOfAnExpectedFailure() {
    Status status =
        failureOf(
            () -> {
              throw new BerthException(Reason.NOT_FOUND, "there is no GPU 7");
            });
    assertThat(status.getCode()).isEqualTo(Status.Code.NOT_FOUND);
    assertThat(status.getDescription()).isEqualTo("there is no GPU 7");
    assertThat(answers).containsExactly("error");
  }

  @Test
  void answersOnceAndBarelyAfterAnUnexpectedFailure() {
    Status status =
        failureOf(
            () -> {
              throw new IllegalStateException("insides");
            });
    assertThat(status.getCode()).isEqualTo(Status.Code.INTERNAL);
    assertThat(status.getDescription()).isNull();
    assertThat(answers).containsExactly("error");
  }

  @Test
  void answersOnceWhenInterrupted() {
    Status status =
        failureOf(
            () -> {
              Thread.currentThread().interrupt();
              new CountDownLatch(1).await();
              return REPLY;
            });
    assertThat(status.getCode()).isEqualTo(Status.Code.UNAVAILABLE);
    assertThat(status.getDescription()).isEqualTo("this server is stopping");
    assertThat(answers).containsExactly("error");
  }

  @Test
  void doesNotAnswerAgainWhenTheAnswerCannotBeDelivered() {
    var undeliverable =
        new Recording(null) {
          @Override
          public void onNext(ListGpusResponse reply) {
            throw new IllegalStateException("no way through");
          }
        };
    assertThatThrownBy(() -> Replies.unary(undeliverable, () -> REPLY))
        .hasMessage("no way through");
    assertThat(answers).isEmpty();
  }

  private Status failureOf(Callable<ListGpusResponse> work) {
    return catchThrowableOfType(StatusRuntimeException.class, () -> call(work)).getStatus();
  }

  private ListGpusResponse call(Callable<ListGpusResponse> work) {
    var service =
        new GpuServiceImplBase() {
          @Override
          public void listGpus(ListGpusRequest request, StreamObserver<ListGpusResponse> observer) {
            Replies.unary(new Recording(observer), work);
          }
        };
    try (var loopback = Loopback.serving(service)) {
      return loopback.gpus().listGpus(ListGpusRequest.getDefaultInstance());
    }
  }

  /** Notes what the caller is answered, before gRPC, which would swallow a second answer. */
  private class Recording implements StreamObserver<ListGpusResponse> {
    private final StreamObserver<ListGpusResponse> observer;

    Recording(StreamObserver<ListGpusResponse> observer) {
      this.observer = observer;
    }

    @Override
    public void onNext(ListGpusResponse reply) {
      answers.add("value");
      observer.onNext(reply);
    }

    @Override
    public void onError(Throwable failure) {
      answers.add("error");
      observer.onError(failure);
    }

    @Override
    public void onCompleted() {
      answers.add("completed");
      observer.onCompleted();
    }
  }
}
