package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.host.state.DurableFiles;
import berth.metrics.Metrics;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.rpc.Vitals;
import berth.v1.CancelClusterRequest;
import berth.v1.Owner;
import berth.v1.StartClusterRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/** All that is checked of a cluster before its bundle is looked for, which there never is. */
class StartClusterRequestFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static Path state;
  private static Clusters clusters;

  @BeforeAll
  static void open() throws IOException {
    state = SCRATCH.empty();
    clusters =
        Clusters.open(
            new Clusters.Settings(
                "gpu1",
                state,
                List.of("/bin/true"),
                SupervisorSandbox.ofThisUser(),
                () -> List.of(new berth.rpc.Address("127.0.0.1", 1)),
                Clusters.Timing.usual()),
            new DurableFiles(new Vitals()),
            (digest, into) -> {
              throw new BerthException(Reason.NOT_FOUND, "no bundle " + digest);
            },
            new Metrics());
  }

  @AfterAll
  static void close() {
    clusters.close();
  }

  static Stream<byte[]> seeds() {
    return Stream.of(
        StartClusterRequest.newBuilder()
            .setName("study")
            .setBundle("0".repeat(64))
            .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
            .setRequestId("r1")
            .build()
            .toByteArray(),
        CancelClusterRequest.newBuilder().setClusterId("c-1").build().toByteArray());
  }

  @MethodSource("seeds")
  @FuzzTest
  void isRefusedWithASentenceAndLeavesNothing(byte[] data) throws Exception {
    try {
      StartClusterRequest request = StartClusterRequest.parseFrom(data);
      assertThat(Inputs.accepted(() -> clusters.start(request))).isEmpty();
      CancelClusterRequest cancel = CancelClusterRequest.parseFrom(data);
      Inputs.accepted(
          () -> {
            clusters.cancel(cancel);
            return cancel;
          });
    } catch (InvalidProtocolBufferException e) {
      return;
    }
    try (var left = Files.list(state.resolve("clusters"))) {
      assertThat(left).isEmpty();
    }
  }
}
