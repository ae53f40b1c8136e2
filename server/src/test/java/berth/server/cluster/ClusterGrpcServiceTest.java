package berth.server.cluster;

import static berth.metrics.ShownMetrics.value;
import static berth.server.cluster.Machine.PATIENCE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.host.lock.KernelFiles;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.rpc.SealedMessage;
import berth.rpc.Vitals;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.ListClustersRequest;
import berth.v1.ListClustersResponse;
import berth.v1.Owner;
import berth.v1.StartClusterRequest;
import berth.v1.StartClusterResponse;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchClusterResponse;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Clusters over a real connection, with supervisors that are real processes. */
class ClusterGrpcServiceTest {
  private static final Owner ADA = Owner.newBuilder().setUser("ada").setHost("laptop").build();
  private static final Owner BOB = Owner.newBuilder().setUser("bob").setHost("desk").build();
  private static final ClusterStatus RUNNING = inPhase(ClusterPhase.CLUSTER_PHASE_RUNNING);
  private static final ClusterStatus ENDED = ended(Instant.now());

  // Runs until somebody cancels it.
  private static final String OBEDIENT = "say running; cancelled; say ended\n";

  @TempDir private Path folder;
  private Machine machine;

  @BeforeEach
  void open() {
    machine = new Machine(folder);
  }

  @AfterEach
  void close() {
    machine.close();
  }

  @Test
  void aClusterGetsOneSupervisorWithAllThatItNeeds() throws Exception {
    machine.registries().add(new Address("reg2", 7));
    String behaviour =
        """
        echo "$BERTH_JAVA_OPTS" >"$folder/options.new" && mv "$folder/options.new" "$folder/options"
        await never
        """;

    StartClusterResponse started = machine.stub().startCluster(request("line", behaviour).build());

    String id = started.getClusterId();
    assertThat(id).matches("c-[0-9a-f]{10}");
    assertThat(started.getServer()).isEqualTo("gpu01");
    Path place = machine.folderOf(id);
    assertThat(place.resolve("input/package/cluster.json")).hasContent("{}");
    int pid = machine.awaitStart(id, 1);
    assertThat(Machine.startLines(place))
        .containsExactly(pid + " " + place + " --registry reg1:18811,reg2:7");
    await().atMost(PATIENCE).until(() -> Files.exists(place.resolve("state/options")));
    assertThat(Files.readString(place.resolve("state/options")).trim()).endsWith("-Xmx160m");
    assertThat(Path.of("/proc/" + pid + "/fd/0").toRealPath()).isEqualTo(Path.of("/dev/null"));
    String[] stat = Files.readString(Path.of("/proc/" + pid + "/stat")).split(" ");
    assertThat(stat[5]).as("its session").isEqualTo("" + pid);
  }

  @Test
  void showsTheClustersByPhase() throws Exception {
    String id = start(request("line", "await go; " + OBEDIENT));
    assertThat(inPhase("submitted")).isEqualTo(1);
    Files.createFile(machine.folderOf(id).resolve("state/go"));
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_RUNNING);
    assertThat(inPhase("running")).isEqualTo(1);
    assertThat(inPhase("submitted")).isEqualTo(0);
    machine.stub().cancelCluster(CancelClusterRequest.newBuilder().setClusterId(id).build());
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(inPhase("ended")).isEqualTo(1);
    assertThat(inPhase("running")).isEqualTo(0);
  }

  private double inPhase(String phase) {
    return value(machine.metrics(), "berth_clusters{phase=\"" + phase + "\"}");
  }

  @Test
  void aClusterIsKnownAsItWasAskedForUntilItsSupervisorHasSaidMore() throws Exception {
    Instant before = Instant.now();
    String id = start(request("line", "await go; say running; await never\n"));

    ClusterStatus submitted = now(id);

    assertThat(submitted)
        .isEqualTo(
            ClusterStatus.newBuilder()
                .setClusterId(id)
                .setName("line")
                .setServer("gpu01")
                .setOwner(ADA)
                .setSubmittedAt(submitted.getSubmittedAt())
                .build());
    assertThat(Messages.instant(submitted.getSubmittedAt())).isBetween(before, Instant.now());
    Files.createFile(machine.folderOf(id).resolve("state/go"));
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_RUNNING);
    assertThat(now(id))
        .isEqualTo(submitted.toBuilder().setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING).build());
  }

  @Test
  void aSupervisorThatIsKilledIsStartedAgainAndThatIsCounted() {
    String id = start(request("line", OBEDIENT));

    Machine.kill(machine.awaitStart(id, 1));
    Machine.kill(machine.awaitStart(id, 2));
    machine.awaitStart(id, 3);

    await().atMost(PATIENCE).until(() -> now(id).getSupervisorRestarts() == 2);
    cancel(id, false);
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(Machine.starts(machine.folderOf(id))).hasSize(3);
    assertThat(now(id).getSupervisorRestarts()).isEqualTo(2);
  }

  @Test
  void aSupervisorThatEndsWithItsClusterIsNotStartedAgain() {
    String id = start(request("line", "say ended\n"));
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);
    int first = machine.awaitStart(id, 1);
    await().atMost(PATIENCE).until(() -> !Machine.alive(first));

    // One that comes later has been looked after as often as the first.
    String other = start(request("other", "exit 3\n"));
    machine.awaitStart(other, 5);

    assertThat(Machine.starts(machine.folderOf(id))).containsExactly(first);
  }

  @Test
  void aSupervisorThatLivesIsFoundAgainByARestartedServer() throws Exception {
    String id = start(request("line", OBEDIENT));
    Machine.kill(machine.awaitStart(id, 1));
    int second = machine.awaitStart(id, 2);
    await().atMost(PATIENCE).until(() -> now(id).getSupervisorRestarts() == 1);

    machine.stop();
    assertThat(Machine.alive(second)).isTrue();
    machine.start();

    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_RUNNING);
    String later = start(request("later", "await never\n"));
    machine.awaitStart(later, 1);
    assertThat(Machine.alive(second)).isTrue();
    assertThat(Machine.starts(machine.folderOf(id))).hasSize(2);
    assertThat(now(id).getSupervisorRestarts()).isEqualTo(1);

    Machine.kill(second);
    machine.awaitStart(id, 3);
    await().atMost(PATIENCE).until(() -> now(id).getSupervisorRestarts() == 2);
  }

  @Test
  void aClusterWhoseSupervisorEndedWithoutTheServerGetsAnotherOneThatUsesTheOldRegistries() {
    String id = start(request("line", OBEDIENT));
    int first = machine.awaitStart(id, 1);
    machine.stop();
    Machine.kill(first);
    machine.registries().clear();

    machine.start();

    machine.awaitStart(id, 2);
    assertThat(Machine.startLines(machine.folderOf(id)))
        .allSatisfy(line -> assertThat(line).endsWith(" --registry reg1:18811"));
  }

  @Test
  void anotherProcessOfTheSameIdIsNoSupervisor() throws Exception {
    String id = start(request("line", OBEDIENT));
    int first = machine.awaitStart(id, 1);
    machine.stop();
    Machine.kill(first);
    int own = (int) ProcessHandle.current().pid();
    machine
        .place(id)
        .write(
            new SupervisorRecord(
                1,
                List.of(new Address("reg1", 18811)),
                Optional.of(
                    new SupervisorProcess(
                        KernelFiles.bootId(), own, KernelFiles.startOf(own).getAsLong() + 1))));

    machine.start();

    machine.awaitStart(id, 2);
  }

  @Test
  void whoeverCancelsFirstIsNotedAndForceIsAddedLater() throws Exception {
    String id = start(request("line", "say running; await never\n"));
    Path note = machine.folderOf(id).resolve("input/cancel");

    cancel(id, false);
    CancelClusterRequest first = noted(note);
    machine.stub().cancelCluster(cancelling(id, true).setBy(BOB).build());
    CancelClusterRequest second = noted(note);
    cancel(id, false);
    CancelClusterRequest third = noted(note);

    assertThat(first).isEqualTo(cancelling(id, false).build());
    assertThat(second).isEqualTo(cancelling(id, true).setBy(BOB).build());
    assertThat(third).isEqualTo(second);
  }

  @Test
  void whoCancelsIsCheckedAndNothingElseIsNoted() throws Exception {
    String id = start(request("line", "say running; await never\n"));
    Path note = machine.folderOf(id).resolve("input/cancel");

    for (Owner by :
        List.of(
            Owner.newBuilder().setUser("a".repeat(1 << 20)).build(),
            Owner.newBuilder().setHost("a".repeat(201)).build(),
            Owner.newBuilder().setUser("ada\u001b[2J").build())) {
      assertFails(
          () -> machine.stub().cancelCluster(cancelling(id, true).setBy(by).build()),
          Status.Code.INVALID_ARGUMENT,
          "the owner ");
    }
    assertThat(note).doesNotExist();

    Owner more = ADA.toBuilder().setUnknownFields(unknown()).build();
    machine
        .stub()
        .cancelCluster(cancelling(id, false).setBy(more).setUnknownFields(unknown()).build());
    assertThat(noted(note)).isEqualTo(cancelling(id, false).build());
  }

  @Test
  void ofAnOwnerOnlyItsNamesAreKept() {
    Owner more = ADA.toBuilder().setUnknownFields(unknown()).build();

    String id = start(request("line", OBEDIENT).setOwner(more));

    assertThat(now(id).getOwner()).isEqualTo(ADA);
  }

  private static UnknownFieldSet unknown() {
    return UnknownFieldSet.newBuilder()
        .addField(
            100,
            UnknownFieldSet.Field.newBuilder()
                .addLengthDelimited(ByteString.copyFrom(new byte[100_000]))
                .build())
        .build();
  }

  @Test
  void aClusterThatHasEndedCannotBeCancelled() {
    String id = start(request("line", "say ended\n"));
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);

    assertFails(
        () -> cancel(id, false), Status.Code.FAILED_PRECONDITION, id + " has ended already");
    assertFails(
        () -> cancel("c-0", false),
        Status.Code.NOT_FOUND,
        "there is no cluster 'c-0' on gpu01: unknown or already deleted");
  }

  @Test
  void aNameIsTakenUntilItsClusterHasEnded() {
    String id = start(request("line", OBEDIENT));

    assertFails(
        () -> start(request("line", OBEDIENT)),
        Status.Code.ALREADY_EXISTS,
        "the cluster line runs here already (" + id + "); cancel it, or choose another name");
    assertThat(machine.clusterFolders()).hasSize(1);
    start(request("Line", OBEDIENT));

    cancel(id, false);
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(start(request("line", OBEDIENT))).isNotEqualTo(id);
  }

  @Test
  void aRetryIsTheSameClusterAlsoAfterARestartAndAfterItsEnd() {
    StartClusterRequest.Builder request = request("line", OBEDIENT).setRequestId("mine");
    String id = start(request);

    assertThat(start(request)).isEqualTo(id);
    machine.stop();
    machine.start();
    assertThat(start(request)).isEqualTo(id);
    cancel(id, false);
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(start(request)).isEqualTo(id);
    assertThat(machine.clusterFolders()).hasSize(1);
  }

  @Test
  void ofSeveralRetriesAtOnceOneBecomesTheCluster() {
    StartClusterRequest request = request("line", OBEDIENT).setRequestId("mine").build();
    List<CompletableFuture<StartClusterResponse>> all =
        List.of(startLater(request), startLater(request), startLater(request), startLater(request));

    assertThat(all.stream().map(CompletableFuture::join).distinct()).hasSize(1);
    assertThat(machine.clusterFolders()).hasSize(1);
  }

  @Test
  void whatCannotBeUsedIsRefusedAndLeavesNothing() {
    String bundle = machine.upload(OBEDIENT, Map.of());
    String empty = machine.upload(Map.of("behaviour.sh", new byte[0]));
    String unknown = "0".repeat(64);

    for (String name : List.of("", "-a", "a b", "a/b", "..", "a\n", "ä")) {
      assertFails(
          () -> start(named(name).setBundle(bundle)),
          Status.Code.INVALID_ARGUMENT,
          "a cluster name has only letters, digits, and . _ -");
    }
    assertFails(
        () -> start(named("a".repeat(101)).setBundle(bundle)),
        Status.Code.INVALID_ARGUMENT,
        "the name has 101 characters, 100 are allowed");
    assertFails(
        () -> start(named("a").setBundle(bundle).setRequestId("a".repeat(101))),
        Status.Code.INVALID_ARGUMENT,
        "the request id has 101 characters, 100 are allowed");
    assertFails(
        () -> start(named("a").setBundle("../../x")),
        Status.Code.INVALID_ARGUMENT,
        "a bundle is named by the 64 lower-case hexadecimal digits");
    assertFails(
        () -> start(named("a").setBundle(unknown)),
        Status.Code.NOT_FOUND,
        "there is no bundle " + unknown);
    assertFails(
        () -> start(named("a").setBundle(empty)),
        Status.Code.INVALID_ARGUMENT,
        "the bundle " + empty + " has no cluster.json");
    assertThat(machine.clusterFolders()).isEmpty();
    assertThat(list().getClustersList()).isEmpty();
  }

  @Test
  void nothingIsStartedWithoutARegistry() {
    machine.registries().clear();

    assertFails(
        () -> start(request("line", OBEDIENT)),
        Status.Code.UNAVAILABLE,
        "this server knows no registry, which a cluster needs");

    assertThat(machine.clusterFolders()).isEmpty();
    machine.registries().add(new Address("reg1", 18811));
    start(request("line", OBEDIENT));
  }

  @Test
  void aServerWithoutAnInstallationStartsNothing() throws IOException {
    String bundle = machine.upload(OBEDIENT, Map.of());
    Path state = Files.createDirectory(folder.resolve("other"));
    for (List<String> command :
        List.of(List.<String>of(), List.of("/no/such/berth", "supervise"))) {
      Clusters.Settings settings =
          new Clusters.Settings(
              "gpu02",
              state,
              command,
              SupervisorSandbox.ofThisUser(),
              () -> List.copyOf(machine.registries()),
              Machine.FAST);
      try (DurableFiles files = new DurableFiles(new Vitals());
          Clusters clusters = Clusters.open(settings, files, (digest, into) -> {}, new Metrics())) {
        assertThatThrownBy(() -> clusters.start(named("line").setBundle(bundle).build()))
            .isInstanceOfSatisfying(
                BerthException.class,
                failure -> assertThat(failure.reason()).isEqualTo(Reason.UNAVAILABLE))
            .hasMessageStartingWith("this server cannot start supervisors: ");
      }
    }
    assertThat(state.resolve("clusters")).isEmptyDirectory();
  }

  @Test
  void clustersAreCountedBeforeTheyAreUnpackedAndFewAreUnpackedAtATime() throws Exception {
    Path state = Files.createDirectory(folder.resolve("other"));
    CountDownLatch go = new CountDownLatch(1);
    AtomicInteger unpacking = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    Clusters.Settings settings =
        new Clusters.Settings(
            "gpu02",
            state,
            machine.command(),
            SupervisorSandbox.ofThisUser(),
            () -> List.copyOf(machine.registries()),
            Machine.FAST);
    ExecutorService callers = Executors.newCachedThreadPool();
    try (DurableFiles files = new DurableFiles(new Vitals());
        Clusters clusters =
            Clusters.open(
                settings,
                files,
                (digest, into) -> {
                  most.accumulateAndGet(unpacking.incrementAndGet(), Math::max);
                  awaitQuietly(go);
                  unpacking.decrementAndGet();
                  throw new BerthException(Reason.NOT_FOUND, "no such bundle");
                },
                new Metrics())) {
      List<CompletableFuture<StoredCluster>> all =
          IntStream.range(0, 60)
              .mapToObj(i -> named("n" + i).setBundle("b").build())
              .map(request -> CompletableFuture.supplyAsync(() -> clusters.start(request), callers))
              .toList();

      // Fifty have a place.
      await()
          .atMost(PATIENCE)
          .until(() -> all.stream().filter(CompletableFuture::isDone).count() == 10);
      await().atMost(PATIENCE).until(() -> unpacking.get() == 2);
      go.countDown();

      Map<Reason, Long> refusals =
          all.stream()
              .map(ClusterGrpcServiceTest::refusal)
              .collect(Collectors.groupingBy(reason -> reason, Collectors.counting()));
      assertThat(refusals).isEqualTo(Map.of(Reason.EXHAUSTED, 10L, Reason.NOT_FOUND, 50L));
      assertThat(most).hasValue(2);
      assertThatThrownBy(() -> clusters.start(named("later").setBundle("b").build()))
          .as("there is room again")
          .hasMessage("no such bundle");
    } finally {
      go.countDown();
      callers.shutdown();
    }
    assertThat(state.resolve("clusters")).isEmptyDirectory();
  }

  private static Reason refusal(CompletableFuture<StoredCluster> start) {
    try {
      return start.thenApply(StoredCluster::id).handle((id, failure) -> reason(failure)).get();
    } catch (InterruptedException | ExecutionException e) {
      throw new AssertionError(e);
    }
  }

  private static Reason reason(Throwable failure) {
    return ((BerthException) failure.getCause()).reason();
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      assertThat(latch.await(PATIENCE.toSeconds() * 2, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void noMoreClustersAreTakenThanCanBeSupervised() {
    machine.stop();
    int own = (int) ProcessHandle.current().pid();
    SupervisorProcess thisOne =
        new SupervisorProcess(KernelFiles.bootId(), own, KernelFiles.startOf(own).getAsLong());
    for (int i = 0; i < 200; i++) {
      ClusterFolder place = machine.place("c-%010d".formatted(i));
      place.create(OptionalInt.empty());
      place.submit(
          ClusterStatus.newBuilder().setName("n" + i).build(),
          "",
          SupervisorRecord.none(List.of()).started(thisOne, List.of()));
    }
    machine.start();

    assertFails(
        () -> start(request("one-more", OBEDIENT)),
        Status.Code.RESOURCE_EXHAUSTED,
        "200 clusters run on gpu01, the maximum");

    machine.place("c-%010d".formatted(7)).write(ENDED);
    start(request("one-more", OBEDIENT));
  }

  @Test
  void aListHasTheOldestFirstAndOnlyTheLastAttempts() {
    ClusterStatus attempts =
        RUNNING.toBuilder()
            .setServer("elsewhere")
            .addTasks(
                TaskStatus.newBuilder()
                    .setType("worker")
                    .addAttempts(TaskAttempt.newBuilder().setNumber(1))
                    .addAttempts(TaskAttempt.newBuilder().setNumber(2)))
            .addTasks(TaskStatus.newBuilder().setType("ps"))
            .build();
    String bundle = machine.upload("say attempts; await never\n", Map.of("attempts", attempts));
    String first = start(named("zebra").setBundle(bundle));
    String second = start(named("ant").setBundle(bundle));
    awaitPhase(first, ClusterPhase.CLUSTER_PHASE_RUNNING);
    awaitPhase(second, ClusterPhase.CLUSTER_PHASE_RUNNING);

    ListClustersResponse list = list();

    assertThat(list.getServer()).isEqualTo("gpu01");
    assertThat(list.getClustersList())
        .extracting(ClusterStatus::getClusterId)
        .containsExactly(first, second);
    assertThat(list.getClustersList())
        .allSatisfy(
            cluster -> {
              assertThat(cluster.getServer()).isEqualTo("gpu01");
              assertThat(cluster.getTasksList())
                  .containsExactly(
                      TaskStatus.newBuilder()
                          .setType("worker")
                          .addAttempts(TaskAttempt.newBuilder().setNumber(2))
                          .build(),
                      TaskStatus.newBuilder().setType("ps").build());
            });
    assertThat(now(first).getTasks(0).getAttemptsList()).hasSize(2);
    machine.stop();
    machine.start();
    assertThat(list().getClustersList())
        .extracting(ClusterStatus::getClusterId)
        .containsExactly(first, second);
  }

  @Test
  void aWatchTellsEveryChangeUntilTheEnd() throws Exception {
    String id = start(request("line", "await go; say running; cancelled; say ended\n"));
    int first = machine.awaitStart(id, 1);
    Watch watch = watch(id);

    assertThat(watch.next().getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_UNSPECIFIED);
    Files.createFile(machine.folderOf(id).resolve("state/go"));
    assertThat(watch.next().getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_RUNNING);
    Machine.kill(first);
    assertThat(watch.next().getSupervisorRestarts()).isEqualTo(1);
    cancel(id, false);
    ClusterStatus last = watch.next();
    assertThat(last.getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
    assertThat(last.getEndedAt()).isEqualTo(ENDED.getEndedAt());
    assertThat(watch.end()).isEqualTo(Status.OK);
    assertThat(watch.responses).isEmpty();
  }

  @Test
  void aWatchOfWhatIsOverEndsAtOnce() {
    String id = start(request("line", "say ended\n"));
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);

    Iterator<WatchClusterResponse> all =
        machine.stub().watchCluster(WatchClusterRequest.newBuilder().setClusterId(id).build());

    assertThat(all)
        .toIterable()
        .extracting(response -> response.getCluster().getPhase())
        .containsExactly(ClusterPhase.CLUSTER_PHASE_ENDED);
    assertFails(
        () -> now("c-0000000000"),
        Status.Code.NOT_FOUND,
        "there is no cluster 'c-0000000000' on gpu01");
  }

  @Test
  void whoReadsSlowlyIsToldTheNewestOnly() throws Exception {
    String id = start(request("line", "await never\n"));
    machine.awaitStart(id, 1);
    ClusterReader reader =
        new ClusterReader(machine.clusters(), machine.clusters().find(id), false);
    reader.next();
    assertThat(reader.next()).isNull();

    for (int i = 1; i <= 5; i++) {
      say(id, RUNNING.toBuilder().setFormation(i).build());
    }

    assertThat(reader.next().getCluster().getFormation()).isEqualTo(5);
    assertThat(reader.next()).isNull();
    assertThat(reader.ended()).isFalse();
  }

  @Test
  void watchesEndWithTheServerAndClustersDoNot() throws Exception {
    String id = start(request("line", OBEDIENT));
    int pid = machine.awaitStart(id, 1);
    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_RUNNING);
    Watch watch = watch(id);
    watch.next();

    machine.stop();

    assertThat(watch.end().getCode()).isEqualTo(Status.Code.UNAVAILABLE);
    assertThat(watch.end().getDescription())
        .isEqualTo("this server is stopping; its clusters continue");
    assertThat(Machine.alive(pid)).isTrue();
    assertThat(Thread.getAllStackTraces().keySet())
        .extracting(Thread::getName)
        .noneMatch(name -> name.startsWith("cluster-"));
    machine.start();
  }

  @Test
  void aClusterIsForgottenWhenItsTimeToLiveIsOverAndNobodyUsesItsFolder() throws Exception {
    Instant now = Instant.now();
    ClusterStatus past = ended(now.minus(Duration.ofHours(1)));
    ClusterStatus shortLived =
        past.toBuilder().setTimeToLive(Messages.duration(Duration.ofMinutes(59))).build();
    ClusterStatus longLived =
        past.toBuilder().setTimeToLive(Messages.duration(Duration.ofMinutes(120))).build();
    ClusterStatus old = ended(now.minus(Duration.ofDays(8)));
    String kept = start(ending("kept", longLived, ""));
    String usually = start(ending("usually", past, ""));
    String used = start(ending("used", shortLived, "await go\n"));
    String gone = start(ending("gone", shortLived, ""));
    String longGone = start(ending("long-gone", old, ""));

    await()
        .atMost(PATIENCE)
        .until(
            () ->
                !Files.exists(machine.folderOf(gone)) && !Files.exists(machine.folderOf(longGone)));

    assertFails(
        () -> now(gone), Status.Code.NOT_FOUND, "there is no cluster '" + gone + "' on gpu01");
    assertThat(list().getClustersList())
        .extracting(ClusterStatus::getClusterId)
        .containsExactly(kept, usually, used);
    Files.createFile(machine.folderOf(used).resolve("state/go"));
    await().atMost(PATIENCE).until(() -> !Files.exists(machine.folderOf(used)));
    assertThat(machine.folderOf(kept)).exists();
    assertThat(machine.folderOf(usually)).exists();
  }

  @Test
  void aClusterIsGivenUpWhenItsSupervisorsFailAtOnceAgainAndAgain() {
    String id = start(request("line", "echo; echo berth: the package is no cluster; exit 125\n"));

    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);

    ClusterStatus end = now(id);
    assertThat(end.getOutcome()).isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_FAILED);
    assertThat(end.getWhy())
        .isEqualTo(
            "its supervisor failed 20 times in a row; the last line of its log is: berth: the"
                + " package is no cluster");
    assertThat(end.getExitCode()).isEqualTo(125);
    assertThat(end.hasEndedAt()).isTrue();
    assertThat(end.getName()).isEqualTo("line");
    assertThat(end.getSupervisorRestarts()).isEqualTo(19);
    assertThat(Machine.starts(machine.folderOf(id))).hasSize(20);
    assertFails(() -> cancel(id, true), Status.Code.FAILED_PRECONDITION, id + " has ended already");
  }

  @Test
  void anOutcomeThatIsCertainStaysWhenAClusterIsGivenUp() {
    ClusterStatus stopping =
        inPhase(ClusterPhase.CLUSTER_PHASE_STOPPING).toBuilder()
            .setOutcome(ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED)
            .build();
    String bundle = machine.upload("say stopping; exit 1\n", Map.of("stopping", stopping));
    String id = start(named("line").setBundle(bundle));

    awaitPhase(id, ClusterPhase.CLUSTER_PHASE_ENDED);

    assertThat(now(id).getOutcome()).isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_SUCCEEDED);
    assertThat(now(id).getExitCode()).isZero();
    assertThat(now(id).getNotesList())
        .singleElement()
        .satisfies(
            note ->
                assertThat(note.getText())
                    .isEqualTo("its supervisor failed 20 times in a row; its log is empty"));
  }

  @Test
  void whatAKilledServerWasTakingOverIsDeleted() throws Exception {
    machine.stop();
    Path half = machine.folderOf("c-0123456789");
    Files.createDirectories(half.resolve("input/package/code"));
    Files.writeString(half.resolve("input/package/cluster.json"), "{}");
    Path damaged = Files.createDirectories(machine.folderOf("c-9876543210"));
    Files.writeString(damaged.resolve("submitted"), "no proto");

    machine.start();

    await().atMost(PATIENCE).until(() -> !Files.exists(half));
    assertThat(damaged.toFile().list())
        .singleElement()
        .satisfies(
            name -> {
              assertThat(name).startsWith("damaged-").endsWith("-submitted");
              assertThat(damaged.resolve(name)).hasContent("no proto");
            });
    assertThat(list().getClustersList()).isEmpty();
  }

  private static CancelClusterRequest noted(Path file) throws IOException {
    return SealedMessage.open(Files.readAllBytes(file), CancelClusterRequest.parser());
  }

  private StartClusterRequest.Builder request(String name, String behaviour) {
    return named(name)
        .setBundle(machine.upload(behaviour, Map.of("running", RUNNING, "ended", ENDED)));
  }

  private StartClusterRequest.Builder ending(String name, ClusterStatus end, String afterwards) {
    return named(name).setBundle(machine.upload("say end\n" + afterwards, Map.of("end", end)));
  }

  private static StartClusterRequest.Builder named(String name) {
    return StartClusterRequest.newBuilder().setName(name).setOwner(ADA);
  }

  private String start(StartClusterRequest.Builder request) {
    return machine.stub().startCluster(request.build()).getClusterId();
  }

  private CompletableFuture<StartClusterResponse> startLater(StartClusterRequest request) {
    return CompletableFuture.supplyAsync(() -> machine.stub().startCluster(request));
  }

  private ListClustersResponse list() {
    return machine.stub().listClusters(ListClustersRequest.getDefaultInstance());
  }

  private ClusterStatus now(String id) {
    Iterator<WatchClusterResponse> all =
        machine
            .stub()
            .watchCluster(WatchClusterRequest.newBuilder().setClusterId(id).setOnce(true).build());
    ClusterStatus now = all.next().getCluster();
    assertThat(all.hasNext()).isFalse();
    return now;
  }

  private void awaitPhase(String id, ClusterPhase phase) {
    await().atMost(PATIENCE).until(() -> now(id).getPhase() == phase);
  }

  private static CancelClusterRequest.Builder cancelling(String id, boolean force) {
    return CancelClusterRequest.newBuilder().setClusterId(id).setBy(ADA).setForce(force);
  }

  private void cancel(String id, boolean force) {
    machine.stub().cancelCluster(cancelling(id, force).build());
  }

  /** As a supervisor does. */
  private void say(String id, ClusterStatus status) throws IOException {
    Path state = machine.place(id).state();
    Path said = Files.write(state.resolve("said"), SealedMessage.seal(status));
    Files.move(said, state.resolve("status"), StandardCopyOption.ATOMIC_MOVE);
  }

  private Watch watch(String id) {
    Watch watch = new Watch();
    machine
        .asyncStub()
        .watchCluster(WatchClusterRequest.newBuilder().setClusterId(id).build(), watch);
    return watch;
  }

  private static ClusterStatus inPhase(ClusterPhase phase) {
    return ClusterStatus.newBuilder().setPhase(phase).build();
  }

  private static ClusterStatus ended(Instant when) {
    return inPhase(ClusterPhase.CLUSTER_PHASE_ENDED).toBuilder()
        .setEndedAt(Messages.timestamp(when))
        .build();
  }

  private static void assertFails(ThrowingCallable call, Status.Code code, String message) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            StatusRuntimeException.class,
            failure -> {
              assertThat(failure.getStatus().getCode()).isEqualTo(code);
              assertThat(failure.getStatus().getDescription()).startsWith(message);
            });
  }

  private static final class Watch implements StreamObserver<WatchClusterResponse> {
    private final BlockingQueue<ClusterStatus> responses = new LinkedBlockingQueue<>();
    private final CompletableFuture<Status> end = new CompletableFuture<>();

    ClusterStatus next() throws InterruptedException {
      return Optional.ofNullable(responses.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS))
          .orElseThrow(() -> new AssertionError("no response; the end: " + end));
    }

    Status end() throws Exception {
      return end.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    @Override
    public void onNext(WatchClusterResponse response) {
      responses.add(response.getCluster());
    }

    @Override
    public void onError(Throwable failure) {
      end.complete(Status.fromThrowable(failure));
    }

    @Override
    public void onCompleted() {
      end.complete(Status.OK);
    }
  }
}
