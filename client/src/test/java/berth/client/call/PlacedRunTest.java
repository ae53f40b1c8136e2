package berth.client.call;

import static berth.fake.FakeRegistry.candidate;
import static berth.fake.FakeRuns.accepted;
import static berth.fake.FakeRuns.breakOff;
import static berth.fake.FakeRuns.end;
import static berth.fake.FakeRuns.exited;
import static berth.fake.FakeRuns.fail;
import static berth.fake.FakeRuns.finished;
import static berth.fake.FakeRuns.output;
import static berth.fake.FakeRuns.queued;
import static berth.fake.FakeRuns.send;
import static berth.fake.FakeRuns.started;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ExitReason;
import berth.v1.FindGpusResponse;
import berth.v1.GpuRequest;
import berth.v1.ListServicesResponse;
import berth.v1.Reservation;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunEvent.EventCase;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.Service;
import berth.v1.WaitTime;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class PlacedRunTest {
  private static final WaitTime FOR_EVER = WaitTime.newBuilder().setForever(true).build();
  private static final RunEvent RESERVED =
      RunEvent.newBuilder().setReserved(Reservation.getDefaultInstance()).build();

  private final FakeRegistry registry = new FakeRegistry();
  private final FakeRuns first = new FakeRuns();
  private final FakeRuns second = new FakeRuns();
  private final Server gpu01 = FakeRegistry.server("gpu01", first.address(), 2, 2);
  private final Server gpu02 = FakeRegistry.server("gpu02", second.address(), 2, 4);
  private final Server gone = FakeRegistry.server("gone", new Address("127.0.0.1", 1), 2, 2);
  private final RegistryClient client = RegistryClient.of(List.of(registry.address()));
  private final List<RunEvent> seen = new ArrayList<>();
  private final List<String> notes = new ArrayList<>();

  @AfterEach
  void close() {
    client.close();
    first.close();
    second.close();
    registry.close();
  }

  @Test
  void runsAtTheBestServerWithoutWaitingThere() throws Exception {
    registry.find(candidate(gpu02, true), candidate(gpu01, true));
    second.onRun = (request, stream) -> end(stream, accepted(), RESERVED, started(), finished());

    run(gpus().setService("tf").setWait(FOR_EVER));

    assertThat(kinds())
        .containsExactly(
            EventCase.ACCEPTED, EventCase.RESERVED, EventCase.STARTED, EventCase.EXITED);
    assertThat(second.asked).singleElement().matches(request -> !request.hasWait());
    assertThat(first.asked).isEmpty();
    assertThat(registry.asked)
        .singleElement()
        .matches(request -> request.getToRun() && request.getFilter().getService().equals("tf"))
        .matches(request -> request.getGpus().getCount() == 2);
    assertThat(notes).containsExactly("placed gpu02");
  }

  @Test
  void itsNameIsKnownBeforeItIsCertainThatItStays() throws Exception {
    registry.find(candidate(gpu01, true));
    first.onRun = (request, stream) -> send(stream, accepted());
    PlacedRun run = new PlacedRun(client, seen::add, new Notes());
    Thread thread = new Thread(() -> runUntilInterrupted(run));
    assertThat(run.runId()).isEmpty();
    thread.start();

    await().until(() -> run.runId().equals(FakeRuns.ID));

    thread.interrupt();
    thread.join();
    run.close();
    assertThat(seen).isEmpty();
  }

  private static void runUntilInterrupted(PlacedRun run) {
    try {
      run.run(gpus().build(), ServerFilter.getDefaultInstance(), (request, at, services) -> {});
    } catch (BerthException e) {
      assertThat(e.reason()).isEqualTo(Reason.CANCELLED);
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Reason.class,
      names = {"EXHAUSTED", "UNAVAILABLE", "NOT_FOUND", "INVALID", "DENIED"})
  void movesOnWhenAServerRefusesAtOnce(Reason reason) throws Exception {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun = (request, stream) -> fail(stream, reason, "not here");
    second.onRun = (request, stream) -> end(stream, accepted(), started(), finished());

    run(gpus());

    assertThat(kinds()).containsExactly(EventCase.ACCEPTED, EventCase.STARTED, EventCase.EXITED);
    assertThat(notes).containsExactly("passed gpu01: not here", "placed gpu02");
  }

  @Test
  void movesOnWhenAServerFilledUpMeanwhileAndSaysNothingOfTheFirstAttempt() throws Exception {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun =
        (request, stream) -> {
          send(stream, accepted(), queued(0));
          fail(stream, Reason.EXHAUSTED, "2 GPUs asked, 0 idle");
        };
    second.onRun =
        (request, stream) -> end(stream, accepted(), started(), output(0, "hi"), finished());

    run(gpus());

    assertThat(kinds())
        .containsExactly(EventCase.ACCEPTED, EventCase.STARTED, EventCase.OUTPUT, EventCase.EXITED);
    assertThat(notes).containsExactly("passed gpu01: 2 GPUs asked, 0 idle", "placed gpu02");
  }

  @Test
  void movesOnFromAServerThatIsGone() throws Exception {
    registry.find(candidate(gone, true), candidate(gpu02, true));
    second.onRun = (request, stream) -> end(stream, accepted(), started(), finished());

    run(gpus());

    assertThat(notes).hasSize(2).first().asString().contains("gone").contains("Connection refused");
  }

  @Test
  void waitsAtTheShortestQueueWhenNobodyHasRoom() throws Exception {
    Server busy =
        gpu01.toBuilder().setStatus(gpu01.getStatus().toBuilder().setQueueLength(3)).build();
    registry.find(candidate(gone, true), candidate(busy, false), candidate(gpu02, false));
    second.onRun =
        (request, stream) -> end(stream, accepted(), queued(1), RESERVED, started(), finished());

    run(gpus().setWait(FOR_EVER));

    assertThat(first.asked).isEmpty();
    assertThat(second.asked).singleElement().matches(request -> request.getWait().getForever());
    assertThat(kinds())
        .containsExactly(
            EventCase.ACCEPTED,
            EventCase.QUEUED,
            EventCase.RESERVED,
            EventCase.STARTED,
            EventCase.EXITED);
    assertThat(notes).last().isEqualTo("waits gpu02");
  }

  @Test
  void waitsWhereItFilledUpMeanwhile() throws Exception {
    registry.find(candidate(gpu01, true));
    first.onRun =
        (request, stream) -> {
          if (request.hasWait()) {
            end(stream, accepted(), queued(0), RESERVED, started(), finished());
          } else {
            fail(stream, Reason.EXHAUSTED, "full");
          }
        };

    run(gpus().setWait(FOR_EVER));

    assertThat(notes).containsExactly("passed gpu01: full", "waits gpu01");
    assertThat(kinds()).startsWith(EventCase.ACCEPTED, EventCase.QUEUED, EventCase.RESERVED);
  }

  @Test
  void leavesAServerThatDrainsWhileItWaitsThere() throws Exception {
    registry.find(candidate(gpu01, false), candidate(gpu02, false));
    first.onRun = (request, stream) -> breakOff(stream, accepted(), queued(2));
    first.onAttach =
        (request, stream) ->
            end(stream, accepted(), exited(ExitReason.EXIT_REASON_NOT_RESERVED, 0, "gpu01 drains"));
    second.onRun = (request, stream) -> end(stream, accepted(), started(), finished());

    run(gpus().setWait(FOR_EVER));

    assertThat(notes).containsExactly("waits gpu01", "passed gpu01: gpu01 drains", "placed gpu02");
    assertThat(kinds())
        .containsExactly(
            EventCase.ACCEPTED,
            EventCase.QUEUED,
            EventCase.ACCEPTED,
            EventCase.STARTED,
            EventCase.EXITED);
  }

  @Test
  void waitsNoLongerThanAsked() {
    registry.find(candidate(gpu01, false), candidate(gpu02, false));
    first.onRun =
        (request, stream) -> {
          send(stream, accepted(), queued(2));
          fail(stream, Reason.TIMED_OUT, "not granted within 5 s");
        };

    assertThatThrownBy(() -> run(gpus().setWait(atMost(5)))).hasMessage("not granted within 5 s");
    assertThat(second.asked).isEmpty();
    assertThat(Messages.duration(first.asked.element().getWait().getAtMost()))
        .isBetween(Duration.ofSeconds(1), Duration.ofSeconds(5));
  }

  @Test
  void whoDoesNotWaitIsToldThatNobodyHasRoom() {
    registry.find(candidate(gpu01, false), candidate(gpu02, false));

    assertThatThrownBy(() -> run(gpus().setWait(atMost(0))))
        .hasMessage("2 servers could take it, but none now");
    assertThat(first.asked).isEmpty();
  }

  @Test
  void saysWhyNoServerTookIt() {
    registry.find(candidate(gpu01, true), candidate(gone, true));
    first.onRun = (request, stream) -> fail(stream, Reason.EXHAUSTED, "full");

    assertThatThrownBy(() -> run(gpus()))
        .hasMessage(
            "no server took it: gpu01: full; gone: no berthd at 127.0.0.1:1: Connection refused");
  }

  @Test
  void saysOnceWhatSeveralServersRefuse() {
    registry.find(candidate(gpu01, true), candidate(gpu02, true), candidate(gone, true));
    first.onRun = (request, stream) -> fail(stream, Reason.INVALID, "1 KiB of memory asked");
    second.onRun = first.onRun;

    assertThatThrownBy(() -> run(gpus()))
        .hasMessage(
            "no server took it: gpu01, gpu02: 1 KiB of memory asked; gone: no berthd at"
                + " 127.0.0.1:1: Connection refused");
  }

  @Test
  void passesOnWhyTheRegistryFoundNobody() {
    registry.found = FindGpusResponse.newBuilder().setProblem("no server is registered").build();

    assertThatThrownBy(() -> run(gpus())).hasMessage("no server is registered");
  }

  @Test
  void aRunThatHasItsGpusStaysWhateverHappens() {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun =
        (request, stream) -> {
          send(stream, accepted(), RESERVED);
          fail(stream, Reason.CONFLICT, "no such program");
        };

    assertThatThrownBy(() -> run(gpus())).hasMessage("no such program");
    assertThat(second.asked).isEmpty();
  }

  @Test
  void aDetachedRunIsLeftAloneWhenItHasItsGpus() throws Exception {
    registry.find(candidate(gpu01, true));
    first.onRun = (request, stream) -> end(stream, accepted());
    first.onAttach = (request, stream) -> send(stream, accepted(), RESERVED);

    run(gpus().setDetached(true));

    assertThat(kinds()).containsExactly(EventCase.ACCEPTED);
    assertThat(first.attached).singleElement().matches(request -> !request.getHolding());
    assertThat(notes).containsExactly("placed gpu01");
  }

  @Test
  void aDetachedRunMovesOnWhenTheServerFilledUpMeanwhile() throws Exception {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun = (request, stream) -> end(stream, accepted());
    first.onAttach =
        (request, stream) ->
            end(stream, accepted(), exited(ExitReason.EXIT_REASON_NOT_RESERVED, 0, "full"));
    second.onRun = first.onRun;
    second.onAttach = (request, stream) -> send(stream, accepted(), started());

    run(gpus().setDetached(true));

    assertThat(kinds()).containsExactly(EventCase.ACCEPTED);
    assertThat(notes).containsExactly("passed gpu01: full", "placed gpu02");
  }

  @Test
  void aDetachedRunIsLeftAloneWhereItWaits() throws Exception {
    registry.find(candidate(gpu01, false));
    first.onRun = (request, stream) -> end(stream, accepted());
    first.onAttach = (request, stream) -> send(stream, accepted(), queued(1));

    run(gpus().setDetached(true).setWait(FOR_EVER));

    assertThat(notes).containsExactly("waits gpu01");
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void isNotStartedTwice(boolean detached) {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun =
        (request, stream) -> {
          // It was taken, but the answer is lost.
          first.runs =
              first.runs.toBuilder().addRuns(berth.v1.Run.newBuilder().setRequest(request)).build();
          fail(stream, Reason.UNAVAILABLE, "gpu01 stops");
        };

    assertThatThrownBy(() -> run(gpus().setDetached(detached)))
        .hasMessage("gpu01 stops; it may still run there: see 'berth runs'");
    assertThat(second.asked).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void isNotStartedElsewhereWhenTheServerIsLostAfterItWasAsked(boolean detached) {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun =
        (request, stream) -> {
          first.listsRuns = false;
          stream.onError(Status.UNAVAILABLE.withDescription("connection reset").asException());
        };

    assertThatThrownBy(() -> run(gpus().setDetached(detached)))
        .hasMessage("connection reset; it may still run there: see 'berth runs'");
    assertThat(second.asked).isEmpty();
  }

  @Test
  void aRunThatWaitsIsNotStartedElsewhereWhileItsServerStillHasIt() {
    registry.find(candidate(gpu01, false), candidate(gpu02, false));
    first.onRun =
        (request, stream) -> {
          first.runs =
              first.runs.toBuilder().addRuns(berth.v1.Run.newBuilder().setRequest(request)).build();
          breakOff(stream, accepted(), queued(2));
        };
    // So that it need not be waited for until following gives up.
    first.onAttach = (request, stream) -> fail(stream, Reason.NOT_FOUND, "gone");

    assertThatThrownBy(() -> run(gpus().setWait(FOR_EVER)))
        .hasMessage(
            "gpu01 stops (then: gone); " + FakeRuns.ID + " may still run there: see 'berth runs'");
    assertThat(second.asked).isEmpty();
  }

  @Test
  void aDetachedRunThatAServerHasIsNotStartedElsewhereWhenThatIsLost() {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun = (request, stream) -> end(stream, accepted());
    first.onAttach = (request, stream) -> breakOff(stream);

    assertThatThrownBy(() -> run(gpus().setDetached(true)))
        .hasMessage("gpu01 stops; " + FakeRuns.ID + " may still run there: see 'berth runs'");
    assertThat(second.asked).isEmpty();
  }

  @Test
  void isPreparedForEachServerWithItsOwnServices() throws Exception {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));
    first.onRun = (request, stream) -> fail(stream, Reason.EXHAUSTED, "full");
    second.onRun = (request, stream) -> end(stream, accepted(), started(), finished());
    first.services = services("sh");
    second.services = services("bash");

    place(
        gpus().build(),
        (request, server, services) ->
            request.addAllCommand(services.getServices(0).getInterpreterList()));

    assertThat(first.asked.element().getCommandList()).containsExactly("sh");
    assertThat(second.asked.element().getCommandList()).containsExactly("bash");
  }

  @Test
  void aMistakeInThePreparationIsNoServersFault() {
    registry.find(candidate(gpu01, true), candidate(gpu02, true));

    assertThatThrownBy(
            () ->
                place(
                    gpus().build(),
                    (request, server, services) -> {
                      throw new BerthException(Reason.INVALID, "there is no file train.py");
                    }))
        .hasMessage("there is no file train.py");
    assertThat(notes).isEmpty();
  }

  private static ListServicesResponse services(String interpreter) {
    return ListServicesResponse.newBuilder()
        .addServices(Service.newBuilder().addInterpreter(interpreter))
        .build();
  }

  private static RunCodeRequest.Builder gpus() {
    return RunCodeRequest.newBuilder().setGpus(GpuRequest.newBuilder().setCount(2));
  }

  private static WaitTime atMost(int seconds) {
    return WaitTime.newBuilder().setAtMost(Messages.duration(Duration.ofSeconds(seconds))).build();
  }

  private void run(RunCodeRequest.Builder request) throws IOException {
    place(request.build(), (whole, server, services) -> {});
  }

  private void place(RunCodeRequest request, PlacedRun.Preparation preparation) throws IOException {
    try (PlacedRun run = new PlacedRun(client, seen::add, new Notes())) {
      run.run(request, ServerFilter.getDefaultInstance(), preparation);
    }
  }

  private List<EventCase> kinds() {
    return seen.stream().map(RunEvent::getEventCase).toList();
  }

  /** Writes down where a request went. */
  private final class Notes implements PlacementListener {
    @Override
    public void placed(Server server, boolean waits) {
      notes.add((waits ? "waits " : "placed ") + server.getInfo().getName());
    }

    @Override
    public void passed(Server server, BerthException why) {
      notes.add("passed " + server.getInfo().getName() + ": " + why.getMessage());
    }
  }
}
