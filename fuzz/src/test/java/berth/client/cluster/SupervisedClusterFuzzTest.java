package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.call.RegistryClient;
import berth.fuzz.Scratch;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.SealedMessage;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.Duration;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A file of a cluster whose package is empty, so that it ends at once, is the input but its first
 * byte. That says which file, and whether it gets a checksum that matches.
 */
class SupervisedClusterFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final List<String> FILES =
      List.of("input/submitted", "input/cancel", "state/status");
  // Nobody answers there.
  private static final RegistryClient REGISTRY =
      RegistryClient.of(List.of(new Address("127.0.0.1", 1)));
  private static final ClusterStatus SUBMITTED = ClusterStatus.newBuilder().setName("a").build();

  static Stream<byte[]> seeds() {
    ClusterStatus status =
        SUBMITTED.toBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
            .addTasks(
                TaskStatus.newBuilder()
                    .setType("worker")
                    .addAttempts(TaskAttempt.newBuilder().setServer("gpu1").setRunId("run-1")))
            .setTimeToLive(Duration.newBuilder().setSeconds(60))
            .build();
    ClusterStatus ended = status.toBuilder().setPhase(ClusterPhase.CLUSTER_PHASE_ENDED).build();
    CancelClusterRequest cancel =
        CancelClusterRequest.newBuilder().setClusterId("c-1").setForce(true).build();
    return Stream.of(
        seed(0, SealedMessage.seal(SUBMITTED)),
        seed(1, SealedMessage.seal(cancel)),
        seed(2, SealedMessage.seal(status)),
        seed(2, SealedMessage.seal(ended)),
        seed(3, SUBMITTED.toByteArray()),
        seed(4, cancel.toByteArray()),
        seed(5, status.toByteArray()),
        seed(5, ended.toByteArray()));
  }

  private static byte[] seed(int first, byte[] rest) {
    return ByteBuffer.allocate(rest.length + 1).put((byte) first).put(rest).array();
  }

  @MethodSource("seeds")
  @FuzzTest
  void endsOrSaysWhatIsWrongWithItsFiles(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    Path folder = SCRATCH.empty();
    Path state = Files.createDirectory(folder.resolve("state"));
    Files.createDirectories(folder.resolve("input/package"));
    Files.write(folder.resolve("input/submitted"), SealedMessage.seal(SUBMITTED));
    int choice = (data[0] & 0xff) % (2 * FILES.size());
    byte[] content = Arrays.copyOfRange(data, 1, data.length);
    Files.write(
        folder.resolve(FILES.get(choice % FILES.size())),
        choice < FILES.size() ? content : sealed(content));

    try {
      SupervisedCluster cluster = new SupervisedCluster(folder, path -> {});
      cluster.cancelAsked();
      cluster.carryOut(REGISTRY, note -> {});
    } catch (BerthException | IOException e) {
      // Without what was handed over, or with an order that cannot be read, nobody can go on.
      assertThat(choice % FILES.size()).isLessThan(2);
      return;
    }
    // It never begins anew what may have been started.
    Path newest = state.resolve("status");
    ClusterStatus left =
        SealedMessage.open(
            Files.readAllBytes(Files.exists(newest) ? newest : folder.resolve("input/submitted")),
            ClusterStatus.parser());
    assertThat(left.getPhase()).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED);
    Ledger.supervised(status -> {}, left, Clock.systemUTC()).status();
  }

  /** As if it had been written so, which a checksum does not keep anybody from. */
  private static byte[] sealed(byte[] content) {
    CRC32C sum = new CRC32C();
    sum.update(content);
    return ByteBuffer.allocate(8 + content.length)
        .put(SealedMessage.seal(SUBMITTED), 0, 4)
        .putInt((int) sum.getValue())
        .put(content)
        .array();
  }
}
