package berth.client.call;

import static berth.fake.FakeRuns.accepted;
import static berth.fake.FakeRuns.breakOff;
import static berth.fake.FakeRuns.end;
import static berth.fake.FakeRuns.finished;
import static berth.fake.FakeRuns.output;
import static berth.fake.FakeRuns.queued;
import static berth.fake.FakeRuns.send;
import static berth.fake.FakeRuns.started;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.fake.FakeRuns;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.AttachRunRequest;
import berth.v1.OutputStream;
import berth.v1.OutputTruncated;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.SynchronousQueue;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class FollowedRunTest {
  private static final FollowedRun.Patience HASTY =
      new FollowedRun.Patience(Duration.ofMillis(1), Duration.ofMillis(20), Duration.ofMillis(500));

  private final FakeRuns server = new FakeRuns();
  private final RunClient client = RunClient.of(server.address());
  private final List<RunEvent> seen = new ArrayList<>();

  @AfterEach
  void close() {
    client.close();
    server.close();
  }

  @Test
  void deliversEveryByteOnceOverStreamsThatBreakAnywhere() {
    String text =
        new Random(7)
            .ints(20_000, 'a', 'z' + 1)
            .mapToObj(letter -> "" + (char) letter)
            .collect(Collectors.joining());
    Random random = new Random(11);
    server.onRun = (request, observer) -> breakOff(observer, accepted(), started());
    server.onAttach =
        (request, observer) -> {
          int offset = (int) request.getFromOffset();
          send(observer, accepted(), started());
          // Begins a little early, as a server that keeps its output in blocks would.
          int next = Math.max(0, offset - random.nextInt(50));
          for (int pieces = random.nextInt(4); pieces > 0 && next < text.length(); pieces--) {
            int to = Math.min(text.length(), next + 1 + random.nextInt(1000));
            send(observer, output(next, text.substring(next, to)));
            next = to;
          }
          if (next == text.length()) {
            end(observer, finished());
          } else {
            breakOff(observer);
          }
        };

    follow().run(RunCodeRequest.getDefaultInstance());

    assertThat(text()).isEqualTo(text);
    assertThat(seen)
        .filteredOn(event -> !event.hasOutput())
        .extracting(RunEvent::getEventCase)
        .containsExactly(
            RunEvent.EventCase.ACCEPTED, RunEvent.EventCase.STARTED, RunEvent.EventCase.EXITED);
    assertThat(server.attached)
        .hasSizeGreaterThan(5)
        .allSatisfy(request -> assertThat(request.getHolding()).isTrue())
        .extracting(AttachRunRequest::getFromOffset)
        .isSorted();
  }

  @Test
  void comesBackToAServerThatWasRestarted() throws Exception {
    SynchronousQueue<StreamObserver<RunEvent>> running = new SynchronousQueue<>();
    server.onRun =
        (request, observer) -> {
          send(observer, accepted(), started(), output(0, "before "));
          hand(running, observer);
        };
    server.onAttach =
        (request, observer) -> end(observer, accepted(), output(7, "after"), finished());
    CompletableFuture<Void> done =
        CompletableFuture.runAsync(
            () -> new FollowedRun(client, seen::add).run(RunCodeRequest.getDefaultInstance()));

    server.restart(running.take());
    done.join();

    assertThat(text()).isEqualTo("before after");
    assertThat(server.attached).last().extracting(AttachRunRequest::getFromOffset).isEqualTo(7L);
  }

  @Test
  void repeatsNoPlaceInTheQueueAndNoTruncation() {
    RunEvent truncated =
        RunEvent.newBuilder()
            .setTruncated(OutputTruncated.newBuilder().setStream(OutputStream.OUTPUT_STREAM_STDERR))
            .build();
    server.onRun = (request, observer) -> breakOff(observer, accepted(), queued(2));
    server.onAttach =
        (request, observer) -> {
          if (server.attached.size() == 1) {
            breakOff(observer, accepted(), queued(2), queued(1), started(), truncated);
          } else {
            end(observer, accepted(), queued(0), started(), truncated, finished());
          }
        };

    follow().run(RunCodeRequest.getDefaultInstance());

    assertThat(seen)
        .containsExactly(accepted(), queued(2), queued(1), started(), truncated, finished());
  }

  @Test
  void triesNothingTwiceBeforeTheRunIsAccepted() {
    server.onRun = (request, observer) -> FakeRuns.fail(observer, Reason.UNAVAILABLE, "draining");

    assertThatThrownBy(() -> follow().run(RunCodeRequest.getDefaultInstance()))
        .hasMessage("draining");
    assertThat(server.asked).hasSize(1);
    assertThat(server.attached).isEmpty();
  }

  @Test
  void givesUpOnAServerThatDoesNotComeBack() {
    server.onRun = (request, observer) -> breakOff(observer, accepted());
    server.onAttach = (request, observer) -> breakOff(observer);

    assertThatThrownBy(() -> follow().run(RunCodeRequest.getDefaultInstance()))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.UNAVAILABLE))
        .hasMessageContaining("gave up on " + FakeRuns.ID);
  }

  @Test
  void aRunThatIsGoneFailsWithWhatBrokeItsStream() {
    server.onRun =
        (request, observer) -> {
          send(observer, accepted());
          FakeRuns.fail(observer, Reason.UNAVAILABLE, "gpu01 is draining");
        };
    server.onAttach = (request, observer) -> FakeRuns.fail(observer, Reason.NOT_FOUND, "no run");

    assertThatThrownBy(() -> follow().run(RunCodeRequest.getDefaultInstance()))
        .hasMessage("gpu01 is draining (then: no run)");
  }

  @Test
  void anyOtherFailureIsFinal() {
    server.onRun =
        (request, observer) -> {
          send(observer, accepted(), queued(3));
          FakeRuns.fail(observer, Reason.TIMED_OUT, "2 GPUs asked, not free within 5 s");
        };

    assertThatThrownBy(() -> follow().run(RunCodeRequest.getDefaultInstance()))
        .hasMessage("2 GPUs asked, not free within 5 s");
    assertThat(server.attached).isEmpty();
  }

  @Test
  void aStreamThatEndsBeforeTheRunIsTakenUpAgain() {
    server.onRun = (request, observer) -> end(observer, accepted(), output(0, "a"));
    server.onAttach = (request, observer) -> end(observer, accepted(), output(1, "b"), finished());

    follow().run(RunCodeRequest.getDefaultInstance());

    assertThat(text()).isEqualTo("ab");
  }

  @Test
  void aDetachedRunIsDoneWhenItIsAccepted() {
    server.onRun = (request, observer) -> breakOff(observer, accepted());

    follow().run(RunCodeRequest.newBuilder().setDetached(true).build());

    assertThat(seen).containsExactly(accepted());
    assertThat(server.attached).isEmpty();
  }

  @Test
  void readsOnWithoutFollowingFromWhereItBroke() {
    server.onAttach =
        (request, observer) -> {
          if (request.getFromOffset() == 5) {
            breakOff(observer, accepted(), output(5, "x"));
          } else {
            end(observer, accepted(), output(6, "y"));
          }
        };

    follow()
        .attach(
            AttachRunRequest.newBuilder()
                .setRunId(FakeRuns.ID)
                .setFromOffset(5)
                .setNoFollow(true)
                .build());

    assertThat(text()).isEqualTo("xy");
    assertThat(server.attached)
        .allSatisfy(request -> assertThat(request.getHolding()).isFalse())
        .allSatisfy(request -> assertThat(request.getNoFollow()).isTrue());
  }

  @Test
  void comesBackWithoutOutputToWhatItFollowsWithout() {
    server.onAttach =
        (request, observer) -> {
          if (server.attached.size() == 1) {
            breakOff(observer, accepted(), started());
          } else {
            end(observer, accepted(), started(), finished());
          }
        };

    follow().attach(AttachRunRequest.newBuilder().setRunId(FakeRuns.ID).setNoOutput(true).build());

    assertThat(seen).containsExactly(accepted(), started(), finished());
    assertThat(server.attached).hasSize(2).allMatch(AttachRunRequest::getNoOutput);
  }

  @Test
  void neverPassesOverMissingOutput() {
    server.onRun = (request, observer) -> end(observer, accepted(), output(3, "late"));

    assertThatThrownBy(() -> follow().run(RunCodeRequest.getDefaultInstance()))
        .hasMessage("the server left out the output of " + FakeRuns.ID + " from byte 0 to 3");
  }

  private FollowedRun follow() {
    return new FollowedRun(client, seen::add, HASTY);
  }

  private String text() {
    return seen.stream()
        .filter(RunEvent::hasOutput)
        .map(event -> event.getOutput().getData().toStringUtf8())
        .collect(Collectors.joining());
  }

  private static <T> void hand(SynchronousQueue<T> queue, T item) {
    try {
      queue.put(item);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
