package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.RpcServer;
import berth.rpc.Statuses;
import berth.v1.ClusterServiceGrpc;
import berth.v1.StartClusterRequest;
import berth.v1.StartClusterResponse;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Clusters that are handed over to a server whose answers get lost. */
class ClusterClientTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(10);
  private static final Throwable LOST =
      Status.UNAVAILABLE.withDescription("Network closed").asRuntimeException();
  private static final Throwable FULL =
      Statuses.toException(new BerthException(Reason.EXHAUSTED, "no more clusters here"));
  private static final Throwable STOPPING =
      Statuses.toException(new BerthException(Reason.UNAVAILABLE, "this server is stopping"));

  private final BlockingQueue<Throwable> failures = new LinkedBlockingQueue<>();
  private final List<StartClusterRequest> asked = Collections.synchronizedList(new ArrayList<>());
  private RpcServer server;
  private ClusterClient client;

  @BeforeEach
  void start() {
    server =
        RpcServer.listenOn(new Address("127.0.0.1", 0))
            .service(
                new ClusterServiceGrpc.ClusterServiceImplBase() {
                  @Override
                  public void startCluster(
                      StartClusterRequest request, StreamObserver<StartClusterResponse> observer) {
                    asked.add(request);
                    Throwable failure = failures.poll();
                    if (failure != null) {
                      observer.onError(failure);
                    } else {
                      observer.onNext(
                          StartClusterResponse.newBuilder().setClusterId("c-1").build());
                      observer.onCompleted();
                    }
                  }
                })
            .start();
    client = ClusterClient.of(server.address());
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
  }

  private String handOver() {
    StartClusterRequest request =
        StartClusterRequest.newBuilder().setName("mnist").setRequestId("same").build();
    return client.start(request, TIMEOUT).getClusterId();
  }

  @Test
  void isAskedAgainWhenItsAnswerWasLost() {
    failures.addAll(List.of(LOST, STOPPING));

    assertThat(handOver()).isEqualTo("c-1");
    assertThat(asked).extracting(StartClusterRequest::getRequestId).containsOnly("same").hasSize(3);
  }

  @Test
  void hasNotTakenWhatItRefusesAfterwards() {
    failures.addAll(List.of(LOST, FULL));

    assertThatThrownBy(this::handOver)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.EXHAUSTED));
  }

  @Test
  void isNotAskedAgainWhenItHasRefused() {
    failures.add(STOPPING);

    assertThatThrownBy(this::handOver).hasMessage("this server is stopping");
    assertThat(asked).hasSize(1);
  }

  @Test
  void hasTakenNothingIfItWasNeverReached() {
    server.close();

    assertThatThrownBy(this::handOver)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE));
  }
}
