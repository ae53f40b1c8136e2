package berth.server.cluster;

import berth.host.lock.KernelFiles;
import berth.host.state.DurableFiles;
import berth.rpc.Address;
import berth.supervision.SealedMessage;
import berth.v1.CancelClusterRequest;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.Owner;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.function.UnaryOperator;

/** Folders of clusters as a server and its supervisors leave them, for tests of others. */
public final class SampleClusters {
  private static final List<Address> REGISTRIES = List.of(new Address("reg1", 18811));

  private SampleClusters() {}

  /** One that goes on and is to end, and one that has ended. */
  public static void make(Path state, DurableFiles files) throws IOException {
    ClusterFolder running = make(state, files, "c-0000000001", ClusterPhase.CLUSTER_PHASE_RUNNING);
    running.write(CancelClusterRequest.newBuilder().setClusterId("c-0000000001").build());
    make(state, files, "c-0000000002", ClusterPhase.CLUSTER_PHASE_ENDED);
    ClusterFolder hopeless =
        make(state, files, "c-0000000003", ClusterPhase.CLUSTER_PHASE_STARTING);
    hopeless.write(
        ClusterStatus.newBuilder()
            .setPhase(ClusterPhase.CLUSTER_PHASE_ENDED)
            .setOutcome(ClusterOutcome.CLUSTER_OUTCOME_FAILED)
            .build());
  }

  private static ClusterFolder make(Path state, DurableFiles files, String id, ClusterPhase phase)
      throws IOException {
    ClusterFolder place = new ClusterFolder(state.resolve("clusters").resolve(id), files);
    place.create(OptionalInt.empty());
    Files.createDirectories(place.shared().packageFolder());
    Files.writeString(place.shared().description(), "{}");
    Files.writeString(place.log(), "it began\n");
    // Its supervisor seems to live: nothing is started here.
    int own = (int) ProcessHandle.current().pid();
    SupervisorProcess alive =
        new SupervisorProcess(KernelFiles.bootId(), own, KernelFiles.startOf(own).getAsLong());
    place.submit(
        ClusterStatus.newBuilder()
            .setClusterId(id)
            .setName("of-" + id)
            .setOwner(Owner.newBuilder().setUser("ada").setHost("laptop"))
            .build(),
        "request-of-" + id,
        SupervisorRecord.none(REGISTRIES).started(alive, REGISTRIES));
    Files.write(
        place.shared().status(),
        SealedMessage.seal(ClusterStatus.newBuilder().setPhase(phase).setFormation(3).build()));
    return place;
  }

  /** What a server shows of its clusters, by id. */
  public static Map<String, String> shown(Clusters clusters) {
    Map<String, String> shown = new TreeMap<>();
    for (ClusterStatus each : clusters.list(UnaryOperator.identity())) {
      shown.put(
          each.getClusterId(),
          each.getName()
              + " "
              + each.getPhase()
              + " "
              + each.getFormation()
              + " of "
              + each.getOwner().getUser());
    }
    return shown;
  }
}
