package berth.registry.directory;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.ShownText;
import berth.rpc.Address;
import berth.rpc.Vitals;
import berth.v1.FindGpusRequest;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.Server;
import berth.v1.ServerFilter;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import com.code_intelligence.jazzer.junit.FuzzTest;
import io.etcd.jetcd.ByteSequence;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** What etcd has of one of two servers, as others may have written it. */
class EtcdValueFuzzTest {
  private static final EtcdKeys KEYS = new EtcdKeys("/berth/");
  private static final Roster ROSTER = new Roster("a", new Vitals());

  static Stream<byte[]> seeds() {
    return Stream.of(server("gpu2").toByteArray(), server("gpu1").toByteArray());
  }

  private static Server server(String name) {
    return Server.newBuilder()
        .setInstance("i1")
        .setGeneration(1_700_000_000_000L)
        .setSequence(3)
        .setInfo(
            ServerInfo.newBuilder()
                .setName(name)
                .setAddress("10.0.0.7:18812")
                .putLabels("room", "b12")
                .addServices(Service.newBuilder().setName("TensorFlow").addAliases("tf"))
                .addGpus(GpuInfo.newBuilder().setUuid("GPU-a").setModel("NVIDIA A100")))
        .setStatus(
            ServerStatus.newBuilder()
                .setCanRun(true)
                .addGpus(GpuStatus.newBuilder().setState(GpuState.GPU_STATE_FREE)))
        .build();
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAServerOfThatNameOrNone(byte[] data) {
    Server good = server("gpu1");
    Optional<Server> read = KEYS.server(KEYS.server("gpu2"), ByteSequence.from(data));

    read.ifPresent(EtcdValueFuzzTest::check);
    List<Server> all = new ArrayList<>(List.of(good));
    read.ifPresent(all::add);
    ROSTER.beginAt(new Roster.Position("a", 1), all);
    assertThat(ROSTER.find("gpu1").map(Listed::server)).contains(good);
    assertThat(ROSTER.size()).isEqualTo(all.size());
    // Whatever is there, what is known can still be told.
    ServerRanking.find(ROSTER, FindGpusRequest.getDefaultInstance());
    new ServerWatch(ROSTER, ServerFilter.getDefaultInstance(), "").next();
  }

  private static void check(Server server) {
    ServerInfo info = server.getInfo();
    assertThat(info.getName()).isEqualTo("gpu2");
    assertThat(Address.parse(info.getAddress(), 0)).hasToString(info.getAddress());
    info.getLabelsMap().forEach(ShownText::check);
    info.getGpusList().forEach(gpu -> ShownText.check("model", gpu.getModel()));
  }
}
