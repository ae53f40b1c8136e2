package berth.registry.directory;

import static berth.registry.directory.SampleServers.heartbeat;
import static berth.registry.directory.SampleServers.registration;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.etcd.EtcdCluster;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.v1.HeartbeatResponse;
import berth.v1.RegisterRequest;
import berth.v1.RegisterResponse;
import berth.v1.Server;
import berth.v1.ServerFilter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiFunction;
import org.awaitility.core.ConditionFactory;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestReporter;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Three directories on three members of etcd, of which some fail. */
@Tag("etcd")
class EtcdFailuresTest {
  private static final LeaseTerms TERMS = new LeaseTerms(Duration.ofSeconds(2), 50);
  private static final Duration SOON = Duration.ofSeconds(20);
  private static final Duration BEAT = TERMS.heartbeatInterval();
  // An election of etcd takes up to two seconds, and this machine has other work too.
  private static final Duration MAX_GAP = Duration.ofSeconds(4);
  private static final int SERVERS = 6;

  private static EtcdCluster cluster;

  private final String prefix = "/test/" + UUID.randomUUID();
  private final List<EtcdDirectory> directories = new ArrayList<>();

  @BeforeAll
  static void startEtcd() {
    cluster = EtcdCluster.start(3);
  }

  @AfterAll
  static void stopEtcd() {
    cluster.close();
  }

  @BeforeEach
  void open() {
    for (int i = 0; i < 3; i++) {
      directories.add(directory(cluster.endpoints()));
    }
  }

  @AfterEach
  void close() throws Exception {
    cluster.restartDead();
    directories.forEach(EtcdDirectory::close);
  }

  @ParameterizedTest
  @ValueSource(strings = {"leader", "follower"})
  void theDeathOfAMemberLosesNobody(String which, TestReporter reporter) throws Exception {
    int member = which.equals("leader") ? cluster.leader() : cluster.follower();
    Gap gap = fails(member, cluster::kill, cluster::restart);
    reporter.publishEntry("death of a " + which, gap.toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"leader", "follower"})
  void aMemberThatHangsLosesNobody(String which, TestReporter reporter) throws Exception {
    int member = which.equals("leader") ? cluster.leader() : cluster.follower();
    Gap gap = fails(member, cluster::freeze, cluster::thaw);
    reporter.publishEntry("a " + which + " hangs", gap.toString());
  }

  private interface Deed {
    void on(int member) throws Exception;
  }

  private static void onAll(Deed deed) throws Exception {
    for (int i = 0; i < cluster.size(); i++) {
      deed.on(i);
    }
  }

  /** How long a heartbeat, a registration, and news of it took at most. */
  private record Gap(Duration heartbeat, Duration registration, Duration news) {}

  private Gap fails(int member, Deed harm, Deed repair) throws Exception {
    try (RegisteredFleet fleet = new RegisteredFleet(SERVERS, BEAT, directories)) {
      soon().until(() -> allKnow(SERVERS));
      fleet.forgetGaps();

      harm.on(member);
      long harmed = System.nanoTime();
      Duration registration = Duration.ZERO;
      for (int i = 0; i < directories.size(); i++) {
        long start = System.nanoTime();
        directories.get(i).register(registration("new" + i, "n" + i + ":1", "n" + i, 1));
        directories.get(i).deregister("new" + i, "n" + i);
        registration = longer(registration, since(start));
      }
      String lease = directories.get(0).register(registration("last", "l:1", "l", 1)).getLeaseId();
      soon().until(() -> allKnow(SERVERS + 1));
      Duration news = since(harmed);
      soon()
          .until(
              () -> {
                directories.get(1).heartbeat(heartbeat("last", "l", lease));
                assertThat(directories).allMatch(d -> d.roster().size() == SERVERS + 1);
                return fleet.heardSince(harmed + BEAT.multipliedBy(2).toNanos());
              });
      Duration heartbeat = fleet.longestGap();
      // Nobody had to register a second time.
      assertThat(fleet.registrations()).isEqualTo(SERVERS);
      directories.get(2).deregister("last", "l");

      // An old leader that comes back to itself may end all leases (etcd-io/etcd#15247).
      repair.on(member);
      cluster.awaitHealthy();
      long repaired = System.nanoTime();
      soon().until(() -> fleet.heardSince(repaired + BEAT.toNanos()) && allKnow(SERVERS));

      assertThat(fleet.failures()).isZero();
      assertThat(heartbeat).isLessThan(MAX_GAP);
      assertThat(registration).isLessThan(MAX_GAP);
      return new Gap(heartbeat, registration, news);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"dead", "frozen"})
  void afterAnOutageLongerThanTheLeaseEverybodyIsBack(String how, TestReporter reporter)
      throws Exception {
    try (RegisteredFleet fleet = new RegisteredFleet(SERVERS, BEAT, directories)) {
      soon().until(() -> allKnow(SERVERS));
      List<Mirror> mirrors = directories.stream().map(d -> new Mirror(d.roster())).toList();
      mirrors.forEach(mirror -> assertThat(mirror.read()).hasSize(SERVERS));

      boolean kill = how.equals("dead");
      onAll(kill ? cluster::kill : cluster::freeze);
      long dead = System.nanoTime();
      soon().until(() -> fleet.failures() >= SERVERS);
      assertThat(since(dead)).isGreaterThan(TERMS.lease());
      assertThat(directories).allMatch(directory -> directory.roster().size() == SERVERS);

      onAll(kill ? cluster::restart : cluster::thaw);
      cluster.awaitHealthy();
      long back = System.nanoTime();
      soon().until(() -> fleet.heardSince(back));
      soon().until(() -> allKnow(SERVERS));
      reporter.publishEntry(how, since(back) + ", " + fleet.registrations() + " registrations");
      fleet.stop();
      awaitEqual(directories);
      mirrors.forEach(
          mirror -> {
            assertThat(mirror.read()).isEqualTo(Mirror.of(directories.get(0).roster()));
            assertThat(mirror.resets()).isEqualTo(1);
          });
    }
  }

  @Test
  void serversThatWereSilentTooLongDuringAnOutageRegisterAgain() throws Exception {
    EtcdDirectory directory = directories.get(0);
    RegisterRequest request = registration("gpu01", "h1:18812", "a", 2);
    RegisterResponse first = directory.register(request);
    soon().until(() -> allKnow(1));
    onAll(cluster::kill);
    onAll(cluster::restart);
    soon().until(() -> allKnow(0));

    assertThat(directory.heartbeat(heartbeat("gpu01", "a", first.getLeaseId())).getUnknown())
        .isTrue();
    RegisterResponse second =
        directory.register(request.toBuilder().setGeneration(first.getGeneration()).build());

    assertThat(second.getGeneration()).isEqualTo(first.getGeneration());
    soon().until(() -> allKnow(1));
  }

  @Test
  void anEtcdThatLostEverythingIsFilledAgain() throws Exception {
    try (RegisteredFleet fleet = new RegisteredFleet(SERVERS, BEAT, directories)) {
      soon().until(() -> allKnow(SERVERS));
      Mirror mirror = new Mirror(directories.get(0).roster());
      mirror.read();

      onAll(cluster::kill);
      onAll(cluster::wipe);
      onAll(cluster::restart);

      soon().until(() -> fleet.registrations() >= 2 * SERVERS && allKnow(SERVERS));
      fleet.stop();
      awaitEqual(directories);
      assertThat(mirror.read()).isEqualTo(Mirror.of(directories.get(0).roster()));
      assertThat(mirror.resets()).isEqualTo(2);
    }
  }

  @Test
  void ofTwoEqualClaimsAtTwoDirectoriesExactlyOneWins() {
    for (int round = 0; round < 30; round++) {
      // In turn for the same name and for the same address.
      String name = "gpu" + round;
      String address = "h" + round + ":1";
      RegisterRequest one = claim(name, address, "one" + round, 7);
      RegisterRequest two =
          round % 2 == 0
              ? claim(name, "other-" + address, "two" + round, 7)
              : claim("other-" + name, address, "two" + round, 7);

      List<Optional<Reason>> outcomes =
          atOnce((directory, request) -> reason(() -> directory.register(request)), one, two);

      assertThat(outcomes)
          .containsExactlyInAnyOrder(Optional.empty(), Optional.of(Reason.ALREADY_EXISTS));
      String winner = (outcomes.get(0).isEmpty() ? "one" : "two") + round;
      String loser = (outcomes.get(0).isEmpty() ? "two" : "one") + round;
      for (EtcdDirectory directory : directories) {
        soon().until(() -> instances(directory).contains(winner));
        assertThat(instances(directory)).doesNotContain(loser);
      }
    }
  }

  @Test
  void ofTwoNewProcessesAtTwoDirectoriesTheLaterOneWins() {
    for (int round = 0; round < 30; round++) {
      String name = "gpu" + round % 3;
      List<RegisterRequest> claims =
          List.of(
              claim(name, name + "a:1", "one" + round, 0),
              claim(name, name + "b:1", "two" + round, 0));

      List<Long> generations =
          atOnce(
              (directory, request) -> directory.register(request).getGeneration(),
              claims.get(0),
              claims.get(1));

      assertThat(generations).doesNotHaveDuplicates().hasSize(2);
      int winner = generations.get(0) > generations.get(1) ? 0 : 1;
      RegisterRequest lost = claims.get(1 - winner);
      HeartbeatResponse told =
          directories.get(2).heartbeat(heartbeat(name, lost.getInstance(), "1"));
      assertThat(told.getReplacedBy())
          .isEqualTo(name + " at " + claims.get(winner).getInfo().getAddress());
      for (EtcdDirectory directory : directories) {
        soon().until(() -> instances(directory).contains(claims.get(winner).getInstance()));
        assertThat(instances(directory)).doesNotContain(lost.getInstance());
      }
    }
  }

  @Test
  void anyDirectoryTakesHeartbeatsAtOnce() {
    // Nobody may be forgotten because this takes its time.
    LeaseTerms patient = new LeaseTerms(Duration.ofMinutes(1), 50);
    directories.forEach(EtcdDirectory::close);
    directories.replaceAll(closed -> directory(patient, cluster.endpoints()));
    for (int i = 0; i < 30; i++) {
      String name = "gpu" + i;
      String lease =
          directories.get(i % 3).register(registration(name, "h" + i + ":1", "a", 2)).getLeaseId();

      var beat = heartbeat(name, "a", lease).toBuilder();
      assertThat(directories.get((i + 1) % 3).heartbeat(beat.build()).getKnown()).isTrue();
      assertThat(
              directories
                  .get((i + 2) % 3)
                  .heartbeat(beat.setStatus(status(2, 1)).build())
                  .getKnown())
          .isTrue();
    }
    for (EtcdDirectory directory : directories) {
      soon()
          .until(
              () ->
                  Mirror.of(directory.roster()).values().stream()
                          .filter(server -> server.getStatus().equals(status(2, 1)))
                          .count()
                      == 30);
    }
  }

  @Test
  void aWatchGoesOnAtAnotherDirectory() {
    directories.get(0).register(registration("gpu01", "h1:1", "a", 2));
    soon().until(() -> allKnow(1));
    Mirror mirror = new Mirror(directories.get(0).roster());
    mirror.read();

    ServerWatch resumed =
        new ServerWatch(
            directories.get(1).roster(), ServerFilter.getDefaultInstance(), mirror.revision());
    directories.get(2).deregister("gpu01", "a");

    var response = soon().until(resumed::next, next -> next != null);
    assertThat(response.getReset()).isFalse();
    assertThat(response.getRemovedList()).containsExactly("gpu01");
  }

  @Test
  void aDirectoryThatMissedCompactedChangesLoadsThemAgain() throws Exception {
    int lonely = cluster.follower();
    EtcdDirectory cutOff = directory(List.of(cluster.endpoint(lonely)));
    EtcdDirectory other = directory(List.of(cluster.endpoint(cluster.leader())));
    try (cutOff;
        other) {
      try (RegisteredFleet fleet = new RegisteredFleet(SERVERS, BEAT, List.of(other))) {
        other.register(registration("goes", "g:1", "g", 1));
        soon().until(() -> cutOff.roster().size() == SERVERS + 1);
        Mirror mirror = new Mirror(cutOff.roster());
        assertThat(mirror.read()).hasSize(SERVERS + 1);

        cluster.kill(lonely);
        other.deregister("goes", "g");
        other.register(registration("passes", "p:1", "p", 1));
        soon().until(() -> other.roster().find("passes").isPresent());
        Mirror elsewhere = new Mirror(other.roster());
        elsewhere.read();
        other.deregister("passes", "p");
        String lease = other.register(registration("comes", "c:1", "c", 1)).getLeaseId();
        soon().until(() -> other.roster().find("comes").isPresent());
        cluster.compact(cluster.leader());
        assertThat(mirror.read()).containsKey("goes");
        cluster.restart(lonely);

        soon()
            .until(
                () -> {
                  other.heartbeat(heartbeat("comes", "c", lease));
                  return cutOff.roster().find("comes").isPresent();
                });
        fleet.stop();
        awaitEqual(List.of(cutOff, other));
        assertThat(mirror.read()).isEqualTo(Mirror.of(other.roster()));
        assertThat(mirror.resets()).isEqualTo(1);
        // Who comes from another directory may know of a server that this one never saw.
        ServerWatch resumed =
            new ServerWatch(
                cutOff.roster(), ServerFilter.getDefaultInstance(), elsewhere.revision());
        assertThat(resumed.next().getReset()).isTrue();
      }
    }
  }

  @Test
  void aDirectoryWaitsForEtcdAndSaysSo() throws Exception {
    int member = cluster.follower();
    cluster.kill(member);
    try (EtcdDirectory early =
        new EtcdDirectory(
            TERMS,
            List.of(cluster.endpoint(member)),
            prefix,
            Duration.ZERO,
            new DirectoryMetrics(new Metrics()),
            new Vitals())) {
      assertThat(reason(early::roster)).contains(Reason.UNAVAILABLE);

      cluster.restart(member);

      soon().until(() -> reason(early::roster).isEmpty());
      early.register(registration("gpu01", "h1:1", "a", 1));
      soon().until(() -> early.roster().size() == 1);
    }
  }

  private static ConditionFactory soon() {
    return await().pollInterval(Duration.ofMillis(10)).atMost(SOON);
  }

  private EtcdDirectory directory(List<String> endpoints) {
    return directory(TERMS, endpoints);
  }

  private EtcdDirectory directory(LeaseTerms terms, List<String> endpoints) {
    EtcdDirectory directory =
        new EtcdDirectory(
            terms,
            endpoints,
            prefix,
            Duration.ZERO,
            new DirectoryMetrics(new Metrics()),
            new Vitals());
    soon().until(() -> reason(directory::roster).isEmpty());
    return directory;
  }

  private boolean allKnow(int servers) {
    return directories.stream().allMatch(directory -> directory.roster().size() == servers);
  }

  private static void awaitEqual(List<EtcdDirectory> some) {
    soon().until(() -> some.stream().map(d -> Mirror.of(d.roster())).distinct().count() == 1);
  }

  private static List<String> instances(EtcdDirectory directory) {
    return Mirror.of(directory.roster()).values().stream().map(Server::getInstance).toList();
  }

  private static RegisterRequest claim(
      String name, String address, String instance, long generation) {
    return registration(name, address, instance, 1).toBuilder().setGeneration(generation).build();
  }

  /** Does something at two directories at the same time. */
  private <T> List<T> atOnce(
      BiFunction<Directory, RegisterRequest, T> deed, RegisterRequest one, RegisterRequest two) {
    var first = CompletableFuture.supplyAsync(() -> deed.apply(directories.get(0), one));
    var second = CompletableFuture.supplyAsync(() -> deed.apply(directories.get(1), two));
    return List.of(first.join(), second.join());
  }

  private static Optional<Reason> reason(Runnable call) {
    try {
      call.run();
      return Optional.empty();
    } catch (BerthException e) {
      return Optional.of(e.reason());
    }
  }

  private static Duration since(long start) {
    return Duration.ofNanos(System.nanoTime() - start);
  }

  private static Duration longer(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }
}
