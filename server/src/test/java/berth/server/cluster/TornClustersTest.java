package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.host.lock.KernelFiles;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.supervision.SealedMessage;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalInt;
import java.util.Random;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Folders of clusters after a power failure that no file system was prepared for. */
class TornClustersTest {
  private static final List<Address> REGISTRIES = List.of(new Address("reg1", 18811));

  @TempDir private Path folder;
  private final DurableFiles files = new DurableFiles(new Vitals());
  private ClusterFolder torn;
  private ClusterFolder whole;

  @BeforeEach
  void make() throws IOException {
    torn = cluster("c-0000000001", "torn");
    whole = cluster("c-0000000002", "whole");
  }

  @AfterEach
  void close() {
    files.close();
  }

  private ClusterFolder cluster(String id, String name) throws IOException {
    ClusterFolder place = new ClusterFolder(folder.resolve("clusters").resolve(id), files);
    place.create(OptionalInt.empty());
    // Its supervisor seems to live: nothing is started here.
    int own = (int) ProcessHandle.current().pid();
    SupervisorProcess alive =
        new SupervisorProcess(KernelFiles.bootId(), own, KernelFiles.startOf(own).getAsLong());
    place.submit(
        ClusterStatus.newBuilder()
            .setClusterId(id)
            .setName(name)
            .setOwner(Owner.newBuilder().setUser("ada").setHost("laptop"))
            .build(),
        "request-of-" + name,
        SupervisorRecord.none(REGISTRIES).started(alive, REGISTRIES));
    place.write(CancelClusterRequest.newBuilder().setClusterId(id).setForce(true).build());
    Files.write(
        place.state().resolve("status"),
        SealedMessage.seal(
            ClusterStatus.newBuilder()
                .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
                .setFormation(3)
                .build()));
    return place;
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "submitted",
        "request",
        "supervisor",
        "cancel",
        "end",
        "input/submitted",
        "input/cancel",
        "state/status"
      })
  void aDamagedFileKeepsNobodyFromStartingAndChangesNothingElse(String name) throws IOException {
    torn.write(
        ClusterStatus.newBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
            .setOutcome(ClusterOutcome.CLUSTER_OUTCOME_FAILED)
            .build());
    if (!name.equals("end")) {
      Files.delete(torn.path().resolve("end"));
    }
    Path file = torn.path().resolve(name);
    byte[] good = Files.readAllBytes(file);
    for (byte[] damaged : damages(good)) {
      Files.write(file, damaged);
      String said = log(() -> assertOpens(name));
      boolean onlyACopy = name.startsWith("input/");
      if (!onlyACopy) {
        assertThat(said).contains(file.toString());
      }
      assertKept(file, damaged);
      Files.write(file, good);
    }
  }

  // At 64 lengths, or at each of fewer.
  private static List<byte[]> damages(byte[] good) {
    List<byte[]> all = new ArrayList<>();
    int step = Math.max(1, good.length / 64);
    for (int length = 0; length < good.length; length += step) {
      all.add(Arrays.copyOf(good, length));
    }
    byte[] garbage = new byte[good.length];
    new Random(1).nextBytes(garbage);
    all.add(garbage);
    all.add(new byte[good.length]);
    byte[] flipped = good.clone();
    flipped[good.length - 1] ^= 1;
    all.add(flipped);
    return all;
  }

  private void assertOpens(String name) {
    Clusters.Settings settings =
        new Clusters.Settings(
            "gpu01",
            folder,
            List.of(),
            SupervisorSandbox.ofThisUser(),
            TornClustersTest::noRegistries,
            Clusters.Timing.usual());
    try (Clusters clusters = Clusters.open(settings, files, (digest, into) -> {}, new Metrics())) {
      List<ClusterStatus> all = clusters.list(UnaryOperator.identity());
      assertThat(all).extracting(ClusterStatus::getName).containsExactlyInAnyOrder("torn", "whole");
      ClusterStatus other =
          all.stream().filter(one -> one.getName().equals("whole")).findFirst().orElseThrow();
      assertThat(other.getFormation()).isEqualTo(3);
      assertThat(other.getOwner().getUser()).isEqualTo("ada");
      assertThat(clusters.find("c-0000000002").requestId()).isEqualTo("request-of-whole");
      StoredCluster same = clusters.find("c-0000000001");
      assertThat(same.owner().getUser()).isEqualTo("ada");
      assertThat(same.folder().cancel().orElseThrow().getForce()).isTrue();
      assertThat(same.ended()).isFalse();
      assertThat(same.requestId()).isEqualTo(name.equals("request") ? "" : "request-of-torn");
      assertThat(same.supervisor().alive()).isEqualTo(!name.equals("supervisor"));
    }
  }

  // So that no supervisor is started either.
  private static List<Address> noRegistries() {
    throw new BerthException(Reason.UNAVAILABLE, "there is none in this test");
  }

  // What was damaged is there still, under the old name or another.
  private void assertKept(Path file, byte[] damaged) throws IOException {
    List<Path> kept = new ArrayList<>(List.of(file));
    try (var all = Files.newDirectoryStream(file.getParent(), "damaged-*")) {
      all.forEach(kept::add);
    }
    boolean found = false;
    for (Path each : kept) {
      found |= Files.exists(each) && Arrays.equals(Files.readAllBytes(each), damaged);
      if (!each.equals(file)) {
        Files.delete(each);
      }
    }
    assertThat(found).as("kept: " + kept).isTrue();
  }

  @Test
  void withoutACopyTheFolderIsLeftAsItIs() throws IOException {
    Files.write(torn.path().resolve("submitted"), new byte[0]);
    Files.write(torn.path().resolve("input/submitted"), new byte[0]);

    Clusters.Settings settings =
        new Clusters.Settings(
            "gpu01",
            folder,
            List.of(),
            SupervisorSandbox.ofThisUser(),
            TornClustersTest::noRegistries,
            Clusters.Timing.usual());
    for (int i = 0; i < 2; i++) {
      try (Clusters clusters =
          Clusters.open(settings, files, (digest, into) -> {}, new Metrics())) {
        assertThat(clusters.list(UnaryOperator.identity()))
            .extracting(ClusterStatus::getName)
            .containsExactly("whole");
      }
      assertThat(torn.path().resolve("state/status")).exists();
    }
  }

  @Test
  void nobodyElseCanReadTheFoldersAndFiles() throws IOException {
    try (var all = Files.newDirectoryStream(torn.path())) {
      for (Path path : all) {
        String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
        if (!path.endsWith("input")) {
          assertThat(mode).as(path.toString()).matches("rw.------");
        }
      }
    }
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(torn.path())))
        .isEqualTo("rwx------");
  }

  @Test
  void aStatusThatIsALinkOrAPipeOrLongOrLiesIsIgnored() throws Exception {
    Path status = torn.state().resolve("status");
    Path secret = Files.copy(status, folder.resolve("secret"));
    Files.delete(status);
    Files.createSymbolicLink(status, secret);
    assertIgnored("state/status");

    Files.delete(status);
    assertThat(new ProcessBuilder("mkfifo", status.toString()).start().waitFor()).isZero();
    assertIgnored("state/status");

    Files.delete(status);
    try (var file = new java.io.RandomAccessFile(status.toFile(), "rw")) {
      file.setLength(1L << 40);
    }
    assertIgnored("has 1099511627776 bytes");

    say(ended().setEndedAt(com.google.protobuf.Timestamp.newBuilder().setSeconds(Long.MAX_VALUE)));
    assertIgnored("invalid timestamp");
  }

  @Test
  void whatASupervisorSaysIsCleanedAndNeverAboutWhoseItIs() throws IOException {
    say(
        ended()
            .setName("other")
            .setOwner(Owner.newBuilder().setUser("root"))
            .setWhy("\u001b[2Jgone\nforged: line\u202e"));

    ClusterStatus shown = shown();

    assertThat(shown.getName()).isEqualTo("torn");
    assertThat(shown.getOwner().getUser()).isEqualTo("ada");
    assertThat(shown.getWhy()).isEqualTo("?[2Jgone?forged: line?");
  }

  private static ClusterStatus.Builder ended() {
    return ClusterStatus.newBuilder().setPhase(ClusterPhase.CLUSTER_PHASE_ENDED);
  }

  private void say(ClusterStatus.Builder status) throws IOException {
    Path file = torn.state().resolve("status");
    Files.deleteIfExists(file);
    Files.write(file, SealedMessage.seal(status.build()));
  }

  private void assertIgnored(String why) throws IOException {
    String said =
        log(() -> assertThat(shown().getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_UNSPECIFIED));
    assertThat(said).contains("the status of c-0000000001 is ignored").contains(why);
  }

  private ClusterStatus shown() {
    try {
      ClusterStatus submitted = torn.submitted().orElseThrow();
      return new StoredCluster("gpu01", torn, submitted, "", SupervisorRecord.none(List.of()), null)
          .status();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  // The tests' logger prints to where System.err leads.
  private static String log(Runnable task) {
    PrintStream usual = System.err;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
    try {
      task.run();
    } finally {
      System.setErr(usual);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }
}
