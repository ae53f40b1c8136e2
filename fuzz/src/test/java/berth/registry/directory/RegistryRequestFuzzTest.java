package berth.registry.directory;

import berth.fuzz.Inputs;
import berth.fuzz.ShownText;
import berth.metrics.Metrics;
import berth.registry.line.TurnLine;
import berth.rpc.Address;
import berth.rpc.Vitals;
import berth.v1.AwaitTurnRequest;
import berth.v1.DeregisterRequest;
import berth.v1.FindGpusRequest;
import berth.v1.GpuInfo;
import berth.v1.GpuRequest;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.HeartbeatRequest;
import berth.v1.Owner;
import berth.v1.RegisterRequest;
import berth.v1.ServerFilter;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import berth.v1.WatchServersRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Requests to a registry that knows one server. The first byte of the input says which request it
 * is.
 */
class RegistryRequestFuzzTest {
  private static final DirectoryMetrics METRICS = new DirectoryMetrics(new Metrics());
  private static final RegisterRequest KNOWN =
      RegisterRequest.newBuilder()
          .setInstance("i1")
          .setInfo(
              ServerInfo.newBuilder()
                  .setName("gpu1")
                  .setAddress("10.0.0.7:18812")
                  .setCpus(64)
                  .setMemoryBytes(1L << 39)
                  .addServices(Service.newBuilder().setName("TensorFlow").addAliases("tf"))
                  .putLabels("room", "b12")
                  .addGpus(
                      GpuInfo.newBuilder()
                          .setUuid("GPU-a")
                          .setModel("NVIDIA A100")
                          .setMemoryBytes(80L << 30)))
          .setStatus(
              ServerStatus.newBuilder()
                  .setCanRun(true)
                  .addGpus(GpuStatus.newBuilder().setState(GpuState.GPU_STATE_FREE)))
          .build();

  static Stream<byte[]> seeds() {
    ServerFilter filter =
        ServerFilter.newBuilder()
            .addNames("gpu1")
            .setService("tf")
            .putLabels("room", "b12")
            .setModel("a100")
            .setMinGpuMemoryBytes(1 << 30)
            .setMinFreeGpus(1)
            .build();
    List<MessageLite> requests =
        List.of(
            KNOWN,
            HeartbeatRequest.newBuilder()
                .setName("gpu1")
                .setInstance("i1")
                .setSequence(3)
                .setInfo(KNOWN.getInfo())
                .setStatus(KNOWN.getStatus())
                .build(),
            FindGpusRequest.newBuilder()
                .setGpus(GpuRequest.newBuilder().setCount(1).setModel("A100"))
                .setFilter(filter)
                .setLimit(10)
                .build(),
            WatchServersRequest.newBuilder().setFilter(filter).setAfterRevision("a-1").build(),
            AwaitTurnRequest.newBuilder()
                .addServers("gpu1")
                .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
                .setPurpose("study")
                .setWaited(Duration.newBuilder().setSeconds(5))
                .build(),
            DeregisterRequest.newBuilder().setName("gpu1").setInstance("i1").build());
    List<byte[]> seeds = new ArrayList<>();
    for (int i = 0; i < requests.size(); i++) {
      seeds.add(
          ByteString.copyFrom(new byte[] {(byte) i})
              .concat(requests.get(i).toByteString())
              .toByteArray());
    }
    return seeds.stream();
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredOrRefusedWithASentence(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    ByteString message = ByteString.copyFrom(data, 1, data.length - 1);
    try (MemoryDirectory directory =
        new MemoryDirectory(
            new LeaseTerms(java.time.Duration.ofSeconds(10), 10), METRICS, new Vitals(), () -> 0)) {
      directory.register(KNOWN);
      Inputs.accepted(() -> answer(directory, Math.floorMod(data[0], 6), message));
      // Whatever came, what is known can still be told.
      ServerRanking.find(directory.roster(), FindGpusRequest.getDefaultInstance());
      new ServerWatch(directory.roster(), ServerFilter.getDefaultInstance(), "").next();
      directory.sweep();
    }
  }

  private static Object answer(MemoryDirectory directory, int kind, ByteString message) {
    try {
      switch (kind) {
        case 0 -> {
          RegisterRequest request = RegisterRequest.parseFrom(message);
          ServerRules.check(request);
          Address.parse(request.getInfo().getAddress(), 0).leadsNowhereElse();
          request.getInfo().getLabelsMap().forEach((key, value) -> ShownText.check(key, value));
          return directory.register(request);
        }
        case 1 -> {
          HeartbeatRequest request = HeartbeatRequest.parseFrom(message);
          ServerRules.check(request);
          return directory.heartbeat(request);
        }
        case 2 -> {
          return ServerRanking.find(directory.roster(), FindGpusRequest.parseFrom(message));
        }
        case 3 -> {
          WatchServersRequest request = WatchServersRequest.parseFrom(message);
          ServerWatch watch =
              new ServerWatch(directory.roster(), request.getFilter(), request.getAfterRevision());
          return String.valueOf(watch.next());
        }
        case 4 -> {
          AwaitTurnRequest request = AwaitTurnRequest.parseFrom(message);
          ServerRules.check(request);
          TurnLine.Place place = new TurnLine(() -> 0).enter(request);
          place.settlesIn();
          return String.valueOf(place.next());
        }
        default -> {
          DeregisterRequest request = DeregisterRequest.parseFrom(message);
          directory.deregister(request.getName(), request.getInstance());
          return request;
        }
      }
    } catch (InvalidProtocolBufferException e) {
      return e;
    }
  }
}
