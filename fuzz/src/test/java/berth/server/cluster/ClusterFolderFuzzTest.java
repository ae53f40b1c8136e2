package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.KeptFolder;
import berth.fuzz.Scratch;
import berth.host.state.DurableFiles;
import berth.rpc.Address;
import berth.rpc.Vitals;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** One file of one of two clusters is the input but its first byte, which says which file. */
class ClusterFolderFuzzTest {
  private static final List<String> FILES =
      List.of(
          "submitted",
          "request",
          "supervisor",
          "cancel",
          "end",
          "state/status",
          "input/cancel",
          "log");
  private static final SupervisorRecord SUPERVISOR =
      new SupervisorRecord(
          2,
          List.of(new Address("10.0.0.7", 18810)),
          Optional.of(new SupervisorProcess("boot", 99999999, 7)));
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());
  private static final KeptFolder TWO_CLUSTERS =
      new KeptFolder(
          folder -> {
            write(new ClusterFolder(folder.resolve("c-1"), DISK));
            write(new ClusterFolder(folder.resolve("c-2"), DISK));
          });

  static Stream<byte[]> seeds() throws IOException {
    Path folder = SCRATCH.empty();
    write(new ClusterFolder(folder.resolve("c-2"), DISK));
    Stream.Builder<byte[]> seeds = Stream.builder();
    for (int i = 0; i < FILES.size(); i++) {
      Path file = folder.resolve("c-2").resolve(FILES.get(i));
      byte[] content = Files.exists(file) ? Files.readAllBytes(file) : "it said\n".getBytes();
      byte[] seed = new byte[content.length + 1];
      seed[0] = (byte) i;
      System.arraycopy(content, 0, seed, 1, content.length);
      seeds.add(seed);
    }
    return seeds.build();
  }

  @MethodSource("seeds")
  @FuzzTest
  void harmsNoOtherCluster(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    Path folder = TWO_CLUSTERS.restored();
    Path damaged = folder.resolve("c-2").resolve(FILES.get((data[0] & 0xff) % FILES.size()));
    Files.write(damaged, Arrays.copyOfRange(data, 1, data.length));

    // What opens them all does it for each in a loop, in which the other one is not to be missed.
    StoredCluster good = read(folder.resolve("c-1")).orElseThrow();
    assertThat(good.status().getName()).isEqualTo("study");
    read(folder.resolve("c-2"))
        .ifPresent(
            cluster -> {
              cluster.status();
              cluster.submittedAt();
              cluster.ended();
              cluster.over();
              cluster.forgotten(java.time.Instant.now());
              cluster.folder().cancel();
              cluster.folder().lastLineOfLog();
            });
  }

  /** As a daemon that starts reads it; empty if it is none, or cannot be read. */
  private static Optional<StoredCluster> read(Path path) {
    ClusterFolder folder = new ClusterFolder(path, DISK);
    try {
      folder.tidy();
      Optional<ClusterStatus> submitted = folder.submitted();
      return submitted.isEmpty()
          ? Optional.empty()
          : Optional.of(
              new StoredCluster(
                  "gpu1", folder, submitted.get(), folder.requestId(), folder.supervisor(), null));
    } catch (IOException e) {
      return Optional.empty();
    }
  }

  private static void write(ClusterFolder folder) {
    folder.create(OptionalInt.empty());
    folder.submit(
        ClusterStatus.newBuilder()
            .setClusterId(folder.id())
            .setName("study")
            .setServer("gpu1")
            .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
            .setSubmittedAt(Timestamp.newBuilder().setSeconds(1_700_000_000))
            .build(),
        "request",
        SUPERVISOR);
    folder.write(CancelClusterRequest.newBuilder().setClusterId(folder.id()).build());
    folder.write(
        ClusterStatus.newBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
            .setEndedAt(Timestamp.newBuilder().setSeconds(1_700_000_001))
            .setTimeToLive(Duration.newBuilder().setSeconds(60))
            .build());
  }
}
