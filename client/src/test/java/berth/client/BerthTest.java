package berth.client;

import static berth.fake.FakeRegistry.candidate;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.client.spec.GpuChoice;
import berth.client.spec.GpuLoad;
import berth.client.spec.GpuServer;
import berth.client.spec.IdleLimit;
import berth.client.spec.Program;
import berth.client.spec.ReservationSpec;
import berth.client.spec.Resources;
import berth.client.spec.ResourcesBuilder;
import berth.client.spec.RunLimits;
import berth.client.spec.RunSpec;
import berth.client.spec.RunUser;
import berth.client.spec.ServerChoice;
import berth.client.spec.ServerGpu;
import berth.client.spec.Warning;
import berth.fake.FakeRegistry;
import berth.fake.FakeReservations;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.ExitReason;
import berth.v1.OutputStream;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.RunAccepted;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Type;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The front door before servers that do what a test wants. */
class BerthTest {
  private static final RunSpec SPEC = RunSpec.builder().command("train").build();
  private static final ReservationSpec TWO_GPUS =
      ReservationSpec.builder().gpus(2).lease(Duration.ofSeconds(1)).build();
  private static final Reservation RESERVED =
      Reservation.newBuilder()
          .setReservationId("r-1")
          .addGpus(ReservedGpu.newBuilder().setIndex(0).setUuid("GPU-a"))
          .addGpus(ReservedGpu.newBuilder().setIndex(3).setUuid("GPU-d"))
          .addPorts(4711)
          .build();

  private final FakeRegistry registry = new FakeRegistry();
  private final FakeRuns runs = new FakeRuns();
  private final FakeReservations reservations = new FakeReservations(RESERVED);
  private final Berth berth = Berth.connect(registry.address().toString());
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();

  @AfterEach
  void close() {
    berth.close();
    registry.close();
    runs.close();
    reservations.close();
  }

  @Test
  void tellsServersAndGpus() {
    registry.servers =
        List.of(
            FakeRegistry.server("gpu01", runs.address(), 1, 2),
            FakeRegistry.server("gpu02", runs.address(), 0, 1));

    assertThat(berth.servers()).extracting(GpuServer::name).containsExactly("gpu01", "gpu02");
    assertThat(berth.gpus())
        .extracting(ServerGpu::uuid)
        .containsExactly("gpu01-0", "gpu01-1", "gpu02-0");
    assertThat(berth.gpus()).extracting(ServerGpu::free).containsExactly(true, false, false);
  }

  @Test
  void aRunGoesWhereTheRegistrySaysAndItsEndIsTold() {
    placeRuns();
    runs.onRun =
        (request, stream) ->
            FakeRuns.end(
                stream,
                FakeRuns.accepted(),
                RunEvent.newBuilder().setReserved(RESERVED).build(),
                FakeRuns.started(),
                FakeRuns.output(0, "one\ntw"),
                FakeRuns.output(OutputStream.OUTPUT_STREAM_STDERR, 6, "oops\n"),
                FakeRuns.output(11, "o\n"),
                RunEvent.newBuilder()
                    .setExited(
                        RunExited.newBuilder()
                            .setReason(ExitReason.EXIT_REASON_FINISHED)
                            .setExitCode(3)
                            .setWallTime(Messages.duration(Duration.ofMillis(1500)))
                            .setPeakMemoryBytes(42))
                    .build());

    RunResult result = berth.run(SPEC, lines::add);

    assertThat(lines).containsExactly("one", "oops", "two");
    assertThat(result)
        .isEqualTo(
            new RunResult(
                FakeRuns.ID,
                "gpu01",
                RunResult.End.FINISHED,
                3,
                "",
                Duration.ofMillis(1500),
                List.of(new HeldGpu(0, "GPU-a"), new HeldGpu(3, "GPU-d")),
                OptionalLong.of(42)));
    assertThat(result.succeeded()).isFalse();
    assertThat(runs.asked.poll().getCommandList()).containsExactly("train");
  }

  @Test
  void eachStreamCanHaveAConsumerOfItsOwn() throws Exception {
    placeRuns();
    runs.onRun =
        (request, stream) ->
            FakeRuns.end(
                stream,
                FakeRuns.accepted(),
                FakeRuns.started(),
                FakeRuns.output(0, "out\n"),
                FakeRuns.output(OutputStream.OUTPUT_STREAM_STDERR, 4, "err\n"),
                FakeRuns.finished());
    List<String> errors = new ArrayList<>();

    RunHandle run = berth.runAsync(SPEC, lines::add, errors::add);

    assertThat(run.result().get(20, TimeUnit.SECONDS).succeeded()).isTrue();
    assertThat(run.runId()).contains(FakeRuns.ID);
    assertThat(run.server()).contains("gpu01");
    assertThat(lines).containsExactly("out");
    assertThat(errors).containsExactly("err");
  }

  @Test
  void whatNeverRanIsAFailure() {
    placeRuns();
    runs.onRun =
        (request, stream) -> {
          FakeRuns.send(stream, FakeRuns.accepted());
          FakeRuns.fail(stream, Reason.NOT_FOUND, "there is no image x");
        };

    assertFails(() -> berth.run(SPEC, lines::add), Reason.NOT_FOUND, "there is no image x");
  }

  @Test
  void whatCannotBeReadIsSaidBeforeAnythingRuns() {
    placeRuns();
    RunSpec none = RunSpec.builder().script("/none/train.py").build();
    RunSpec noFolder = RunSpec.builder().files(Path.of("/none")).command("train").build();

    assertThatThrownBy(() -> berth.run(none, lines::add))
        .hasMessageStartingWith("there is no file /none/train.py");
    assertFails(
        () -> berth.run(noFolder, lines::add),
        Reason.INVALID,
        "cannot bundle /none: no such folder");
    assertThat(runs.asked).isEmpty();
  }

  @Test
  void aRunThatIsCancelledEndsAsItsServerSays() throws Exception {
    placeRuns();
    runHangs();
    RunHandle run = startedRun();

    run.cancel();

    RunResult result = run.result().get(20, TimeUnit.SECONDS);
    assertThat(result.end()).isEqualTo(RunResult.End.CANCELLED);
    assertThat(result.why()).isEqualTo("cancelled");
    assertThat(runs.cancelled).extracting(c -> c.getRunId()).containsExactly(FakeRuns.ID);
  }

  @Test
  void cancellingTheResultCancelsTheRun() throws Exception {
    placeRuns();
    runHangs();
    RunHandle run = startedRun();

    run.result().cancel(true);

    assertThat(runs.cancelled.poll(20, TimeUnit.SECONDS).getRunId()).isEqualTo(FakeRuns.ID);
    assertThatThrownBy(() -> run.result().get()).isInstanceOf(CancellationException.class);
  }

  @Test
  void aRunThatNobodyHasTakenIsGivenUp() throws Exception {
    placeRuns();
    CountDownLatch left = new CountDownLatch(1);
    CountDownLatch asked = new CountDownLatch(1);
    runs.onRun =
        (request, stream) -> {
          onCancel(stream, left::countDown);
          asked.countDown();
        };
    RunHandle run = berth.runAsync(SPEC, lines::add);
    asked.await(20, TimeUnit.SECONDS);

    run.cancel();

    assertThat(left.await(20, TimeUnit.SECONDS)).isTrue();
    assertThatThrownBy(() -> run.result().get(20, TimeUnit.SECONDS))
        .cause()
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CANCELLED));
  }

  @Test
  void aConsumerThatFailsEndsTheRun() throws Exception {
    placeRuns();
    runHangs();

    RunHandle run =
        berth.runAsync(
            SPEC,
            line -> {
              throw new IllegalStateException("enough");
            });

    assertThatThrownBy(() -> run.result().get(20, TimeUnit.SECONDS))
        .cause()
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("enough");
    assertThat(runs.cancelled.poll(20, TimeUnit.SECONDS).getRunId()).isEqualTo(FakeRuns.ID);
  }

  @Test
  void whoeverIsInterruptedWhileWaitingEndsTheRun() throws Exception {
    placeRuns();
    runHangs();
    CompletableFuture<Throwable> thrown = new CompletableFuture<>();
    Thread caller =
        new Thread(
            () -> {
              try {
                berth.run(SPEC, lines::add);
              } catch (BerthException e) {
                thrown.complete(Thread.currentThread().isInterrupted() ? e : null);
              }
            });
    caller.start();
    lines.poll(20, TimeUnit.SECONDS);

    caller.interrupt();

    assertThat(thrown.get(20, TimeUnit.SECONDS))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CANCELLED));
    assertThat(runs.cancelled.poll(20, TimeUnit.SECONDS).getRunId()).isEqualTo(FakeRuns.ID);
  }

  @Test
  void closingEndsRunsAndReservationsButNotWhatIsDetached() throws Exception {
    placeRuns();
    runHangs();
    RunHandle run = startedRun();
    placeReservations();
    GpuReservation held = berth.reserve(TWO_GPUS);
    registry.servers = List.of(FakeRegistry.server("gpu01", runs.address(), 1, 1));
    runs.onAttach =
        (request, stream) ->
            FakeRuns.send(
                stream, FakeRuns.accepted(), FakeRuns.started(), FakeRuns.output(0, "detached\n"));
    RunHandle detached = berth.attach(new DetachedRun("gpu01", "run-d"), lines::add);
    assertThat(lines.poll(20, TimeUnit.SECONDS)).isEqualTo("detached");

    berth.close();

    assertThat(run.result().get().end()).isEqualTo(RunResult.End.CANCELLED);
    assertThat(reservations.released).containsExactly("r-1");
    assertThat(held.ended()).isCompleted();
    assertThat(detached.result()).isCompletedExceptionally();
    assertThat(runs.cancelled).extracting(c -> c.getRunId()).containsExactly(FakeRuns.ID);
    assertFails(berth::servers, Reason.CANCELLED, "this connection to Berth is closed");
    assertFails(
        () -> berth.runAsync(SPEC, lines::add),
        Reason.CANCELLED,
        "this connection to Berth is closed");
  }

  @Test
  void aDetachedRunIsKnownByItsServerAndItsName() {
    placeRuns();
    runs.onRun = (request, stream) -> FakeRuns.end(stream, FakeRuns.accepted());
    runs.onAttach =
        (request, stream) -> FakeRuns.send(stream, FakeRuns.accepted(), FakeRuns.started());

    DetachedRun run = berth.runDetached(SPEC);

    assertThat(run).isEqualTo(new DetachedRun("gpu01", FakeRuns.ID));
    assertThat(runs.asked.poll().getDetached()).isTrue();
  }

  @Test
  void listeningToADetachedRunThatNeverRanFails() throws Exception {
    registry.servers = List.of(FakeRegistry.server("gpu01", runs.address(), 1, 1));
    runs.onAttach =
        (request, stream) ->
            FakeRuns.end(
                stream,
                FakeRuns.accepted(),
                FakeRuns.exited(ExitReason.EXIT_REASON_IMAGE_NOT_FOUND, 0, "there is no image x"));

    RunHandle run = berth.attach(new DetachedRun("gpu01", FakeRuns.ID), lines::add);

    assertFails(run.result(), Reason.NOT_FOUND, "there is no image x");
  }

  @Test
  void aDetachedRunIsCancelledOnlyByThatWord() throws Exception {
    registry.servers = List.of(FakeRegistry.server("gpu01", runs.address(), 1, 1));
    runs.onAttach = (request, stream) -> FakeRuns.send(stream, FakeRuns.accepted());
    DetachedRun run = new DetachedRun("gpu01", FakeRuns.ID);

    RunHandle listener = berth.attach(run, lines::add);
    listener.result().cancel(true);
    listener.close();
    RunHandle owner = berth.attach(run, lines::add);
    owner.cancel();

    assertThat(runs.cancelled.poll(20, TimeUnit.SECONDS).getRunId()).isEqualTo(FakeRuns.ID);
    assertThat(runs.cancelled).isEmpty();
  }

  @Test
  void aServerThatIsNotThereHasNoRuns() throws Exception {
    RunHandle run = berth.attach(new DetachedRun("gpu09", "run-x"), lines::add);

    assertFails(
        run.result(), Reason.NOT_FOUND, "no server gpu09 is registered at " + registry.address());
  }

  @Test
  void aReservationIsHeldByRenewalsUntilItIsClosed() throws Exception {
    placeReservations();

    try (GpuReservation held = berth.reserve(TWO_GPUS)) {
      assertThat(held.id()).isEqualTo("r-1");
      assertThat(held.server()).isEqualTo("gpu02");
      assertThat(held.address()).isEqualTo(reservations.address());
      assertThat(held.gpus()).containsExactly(new HeldGpu(0, "GPU-a"), new HeldGpu(3, "GPU-d"));
      assertThat(held.ports()).containsExactly(4711);
      for (int i = 0; i < 4; i++) {
        assertThat(reservations.renewed.poll(20, TimeUnit.SECONDS).getReservationId())
            .isEqualTo("r-1");
      }
      assertThat(reservations.released).isEmpty();
      assertThat(held.ended()).isNotDone();
    }

    assertThat(reservations.released).containsExactly("r-1");
    assertThat(reservations.asked)
        .singleElement()
        .matches(request -> request.getGpus().getCount() == 2)
        .matches(request -> request.getLifetime().getDuration().getSeconds() == 1);
  }

  @Test
  void aReservationThatItsServerDoesNotKnowIsLost() throws Exception {
    placeReservations();
    reservations.onRenew =
        (request, stream) -> FakeRuns.fail(stream, Reason.NOT_FOUND, "there is no reservation");

    GpuReservation held = berth.reserve(TWO_GPUS);

    assertFails(held.ended(), Reason.NOT_FOUND, "r-1 on gpu02 is lost: there is no reservation");
    held.close();
    assertThat(reservations.released).isEmpty();
  }

  @Test
  void aReservationOutlivesAServerThatIsAwayForAMoment() throws Exception {
    placeReservations();
    var renew = reservations.onRenew;
    reservations.onRenew =
        (request, stream) -> FakeRuns.fail(stream, Reason.UNAVAILABLE, "gpu02 stops");
    GpuReservation held =
        berth.reserve(ReservationSpec.builder().gpus(2).lease(Duration.ofSeconds(6)).build());
    reservations.renewed.poll(20, TimeUnit.SECONDS);
    reservations.renewed.poll(20, TimeUnit.SECONDS);

    reservations.onRenew = renew;
    reservations.renewed.clear();
    assertThat(reservations.renewed.poll(20, TimeUnit.SECONDS)).isNotNull();
    assertThat(reservations.renewed.poll(20, TimeUnit.SECONDS)).isNotNull();

    assertThat(held.ended()).isNotDone();
  }

  @Test
  void aReservationOfWhichNothingIsHeardForItsLeaseIsLost() throws Exception {
    placeReservations();
    reservations.onRenew =
        (request, stream) -> FakeRuns.fail(stream, Reason.UNAVAILABLE, "gpu02 stops");

    GpuReservation held = berth.reserve(TWO_GPUS);

    assertFails(held.ended(), Reason.UNAVAILABLE, "r-1 on gpu02 is lost: gpu02 stops");
  }

  @Test
  void aReservationThatOthersRunOnEndsWithItsLease() throws Exception {
    placeReservations();
    reservations.onRelease =
        (request, stream) -> FakeRuns.fail(stream, Reason.CONFLICT, "r-1 is used by run-2");
    GpuReservation held = berth.reserve(TWO_GPUS);

    held.close();

    assertThat(reservations.renewed)
        .last()
        .matches(request -> Messages.duration(request.getLease()).toMillis() == 1);
  }

  @Test
  void cancellingAReservationThatWaitsLeavesTheQueue() throws Exception {
    placeReservations();
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch left = new CountDownLatch(1);
    reservations.onReserve =
        (request, stream) -> {
          onCancel(stream, left::countDown);
          asked.countDown();
        };
    CompletableFuture<GpuReservation> granted = berth.reserveAsync(TWO_GPUS);
    asked.await(20, TimeUnit.SECONDS);

    granted.cancel(true);

    assertThat(left.await(20, TimeUnit.SECONDS)).isTrue();
  }

  @Test
  void aReservationThatWaitsIsGivenUpWhenAllIsClosed() throws Exception {
    placeReservations();
    CountDownLatch asked = new CountDownLatch(1);
    reservations.onReserve = (request, stream) -> asked.countDown();
    CompletableFuture<GpuReservation> granted = berth.reserveAsync(TWO_GPUS);
    asked.await(20, TimeUnit.SECONDS);

    berth.close();

    await().until(granted::isCompletedExceptionally);
  }

  @Test
  void whatRunsOnAReservationAsksForNothingOfItsOwn() {
    placeReservations();
    GpuReservation held = berth.reserve(TWO_GPUS);

    assertFails(
        () -> held.run(RunSpec.builder().command("train").gpus(1).build(), lines::add),
        Reason.INVALID,
        "a run in a reservation uses its GPUs and ports and cannot ask for others");
  }

  @Test
  void onlyServersThatMayTakeARunAreAskedFor() {
    registry.servers =
        List.of(
            server("gpu01", 64, 8),
            server("gpu02", 64, 8),
            server("gpu03", 16, 8),
            server("gpu04", 64, 2));
    RunSpec.Builder spec = RunSpec.builder().command("train").exclude("gpu02");

    assertThatThrownBy(() -> berth.run(spec.memory("32g").cpus(4).build(), lines::add))
        .isInstanceOf(BerthException.class);
    assertFails(
        () -> berth.run(spec.memory("65g").build(), lines::add),
        Reason.EXHAUSTED,
        "no server matches the names, exclusions, labels, service, memory and CPUs given");

    assertThat(registry.asked)
        .singleElement()
        .satisfies(
            request -> assertThat(request.getFilter().getNamesList()).containsExactly("gpu01"));
  }

  @Test
  void namesLabelsAndServicesAreTheRegistrysToJudge() {
    RunSpec spec =
        RunSpec.builder().service("tf").label("room", "b12").servers("gpu01", "gpu02").build();

    assertThatThrownBy(() -> berth.run(spec, lines::add)).isInstanceOf(BerthException.class);

    assertThat(registry.asked)
        .singleElement()
        .matches(request -> request.getFilter().getService().equals("tf"))
        .matches(request -> request.getFilter().getLabelsOrThrow("room").equals("b12"))
        .satisfies(
            request ->
                assertThat(request.getFilter().getNamesList())
                    .containsExactlyInAnyOrder("gpu01", "gpu02"));
  }

  @Test
  void needsARegistry() {
    assertFails(() -> Berth.connect(List.of()), Reason.INVALID, "name at least one registry");
    assertFails(
        () -> Berth.connect("host:port"),
        Reason.INVALID,
        "'host:port' is not HOST:PORT: 'port' is not a number");
  }

  @Test
  void nobodyNeedsToKnowHowBerthSpeaks() {
    List<Class<?>> door =
        List.of(
            Berth.class,
            RunHandle.class,
            RunResult.class,
            DetachedRun.class,
            GpuReservation.class,
            ReservationSpec.class,
            ReservationSpec.Builder.class,
            HeldGpu.class,
            Resources.class,
            ResourcesBuilder.class,
            GpuChoice.class,
            ServerChoice.class,
            RunLimits.class,
            RunUser.class,
            Warning.class,
            IdleLimit.class,
            RunInfo.class,
            RunList.class,
            FetchedFiles.class,
            GpuLoad.class,
            RunSpec.class,
            RunSpec.Builder.class,
            Program.class,
            GpuServer.class,
            ServerGpu.class);

    assertThat(door)
        .flatExtracting(BerthTest::signatures)
        .isNotEmpty()
        .noneMatch(type -> type.matches(".*(io\\.grpc|com\\.google|berth\\.v1|picocli).*"));
  }

  private static List<String> signatures(Class<?> type) {
    List<String> types = new ArrayList<>();
    for (Method method : type.getDeclaredMethods()) {
      if (Modifier.isPublic(method.getModifiers())) {
        Stream.concat(
                Stream.of(method.getGenericReturnType()),
                Stream.of(method.getGenericParameterTypes()))
            .map(Type::getTypeName)
            .forEach(types::add);
      }
    }
    return types;
  }

  private void placeRuns() {
    registry.find(candidate(FakeRegistry.server("gpu01", runs.address(), 1, 1), true));
  }

  private void placeReservations() {
    registry.find(candidate(FakeRegistry.server("gpu02", reservations.address(), 2, 2), true));
  }

  private static berth.v1.Server server(String name, int gibibytes, int cpus) {
    berth.v1.Server.Builder server =
        FakeRegistry.server(name, new Address("127.0.0.1", 1), 0, 0).toBuilder();
    server.getInfoBuilder().setMemoryBytes((long) gibibytes << 30).setCpus(cpus);
    return server.build();
  }

  /** Lets runs print a line, and end when they are cancelled. */
  private void runHangs() {
    BlockingQueue<StreamObserver<RunEvent>> streams = new LinkedBlockingQueue<>();
    runs.onRun =
        (RunCodeRequest request, StreamObserver<RunEvent> stream) -> {
          FakeRuns.send(
              stream,
              RunEvent.newBuilder()
                  .setAccepted(RunAccepted.newBuilder().setRunId(FakeRuns.ID).setServer("gpu01"))
                  .build(),
              FakeRuns.started(),
              FakeRuns.output(0, "up\n"));
          streams.add(stream);
        };
    var answer = runs.onCancel;
    runs.onCancel =
        (request, observer) -> {
          answer.accept(request, observer);
          StreamObserver<RunEvent> stream = streams.poll();
          if (stream != null && !((ServerCallStreamObserver<RunEvent>) stream).isCancelled()) {
            FakeRuns.end(
                stream, FakeRuns.exited(ExitReason.EXIT_REASON_CANCELLED, 143, "cancelled"));
          }
        };
  }

  private RunHandle startedRun() throws InterruptedException {
    RunHandle run = berth.runAsync(SPEC, lines::add);
    assertThat(lines.poll(20, TimeUnit.SECONDS)).isEqualTo("up");
    return run;
  }

  private static void onCancel(StreamObserver<?> stream, Runnable action) {
    ((ServerCallStreamObserver<?>) stream).setOnCancelHandler(action);
  }

  private static void assertFails(
      org.assertj.core.api.ThrowableAssert.ThrowingCallable call, Reason reason, String message) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.reason()).isEqualTo(reason))
        .hasMessage(message);
  }

  private static void assertFails(CompletableFuture<?> future, Reason reason, String message) {
    assertFails(
        () -> {
          try {
            future.get(20, TimeUnit.SECONDS);
          } catch (ExecutionException e) {
            throw e.getCause();
          }
        },
        reason,
        message);
  }
}
