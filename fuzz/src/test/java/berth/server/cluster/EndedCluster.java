package berth.server.cluster;

import berth.host.state.DurableFiles;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;

/** A cluster that is over, as a daemon finds it on its disk. */
public final class EndedCluster {
  public static final String ID = "c-0000000001";

  private EndedCluster() {}

  public static void write(Path state, DurableFiles disk) throws IOException {
    Timestamp now = Timestamp.newBuilder().setSeconds(Instant.now().getEpochSecond()).build();
    ClusterFolder folder = new ClusterFolder(state.resolve("clusters").resolve(ID), disk);
    folder.create(OptionalInt.empty());
    folder.submit(
        ClusterStatus.newBuilder()
            .setClusterId(ID)
            .setName("study")
            .setServer("gpu1")
            .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
            .setSubmittedAt(now)
            .build(),
        "request",
        new SupervisorRecord(1, List.of(), Optional.empty()));
    folder.write(
        ClusterStatus.newBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
            .setEndedAt(now)
            .build());
  }
}
