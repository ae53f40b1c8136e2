package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;

import berth.client.spec.GpuServer;
import berth.fuzz.Inputs;
import berth.v1.GpuInfo;
import berth.v1.GpuState;
import berth.v1.GpuStatus;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import berth.v1.WatchServersResponse;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.InvalidProtocolBufferException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/** What a registry tells of servers, one response after the other, each after its length. */
class ServerListFuzzTest {
  private static final int MOST = 50;

  static Stream<byte[]> seeds() throws IOException {
    WatchServersResponse all =
        WatchServersResponse.newBuilder()
            .setReset(true)
            .setComplete(true)
            .setRevision("a:1")
            .addServers(server("gpu1"))
            .addServers(server("gpu2"))
            .build();
    WatchServersResponse change =
        WatchServersResponse.newBuilder()
            .setComplete(true)
            .setRevision("a:2")
            .addServers(server("gpu3"))
            .addRemoved("gpu1")
            .build();
    return Stream.of(
        written(all, change), written(all, change.toBuilder().setComplete(false).build(), all));
  }

  private static Server server(String name) {
    return Server.newBuilder()
        .setInstance("i1")
        .setInfo(
            ServerInfo.newBuilder()
                .setName(name)
                .setAddress("10.0.0.7:18812")
                .putLabels("room", "b12")
                .addServices(Service.newBuilder().setName("TensorFlow").addAliases("tf"))
                .addGpus(GpuInfo.newBuilder().setUuid("GPU-a").setModel("NVIDIA A100"))
                .addGpus(GpuInfo.newBuilder().setIndex(1).setUuid("GPU-b")))
        .setStatus(
            ServerStatus.newBuilder()
                .setCanRun(true)
                .addGpus(GpuStatus.newBuilder().setState(GpuState.GPU_STATE_FREE)))
        .build();
  }

  private static byte[] written(WatchServersResponse... responses) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (WatchServersResponse response : responses) {
      response.writeDelimitedTo(bytes);
    }
    return bytes.toByteArray();
  }

  @MethodSource("seeds")
  @FuzzTest
  void addsUpToWhatTheRegistryKnows(byte[] data) throws Exception {
    ByteArrayInputStream in = new ByteArrayInputStream(data);
    WatchedServers watched = new WatchedServers();
    TreeMap<String, Server> told = new TreeMap<>();
    for (int i = 0; i < MOST; i++) {
      WatchServersResponse response;
      try {
        response = WatchServersResponse.parseDelimitedFrom(in);
      } catch (InvalidProtocolBufferException e) {
        return;
      }
      if (response == null) {
        return;
      }
      watched.take(response).ifPresent(news -> add(news, told));
      for (Server server : response.getServersList()) {
        GpuServer read = Inputs.accepted(() -> GpuServers.of(server)).orElse(null);
        if (read != null) {
          assertThat(read.gpus()).hasSize(server.getInfo().getGpusCount());
          assertThat(read.freeGpus()).isBetween(0, read.gpus().size());
        }
      }
      if (response.getReset() && response.getComplete()) {
        TreeMap<String, Server> all = new TreeMap<>();
        response.getServersList().forEach(server -> all.put(server.getInfo().getName(), server));
        assertThat(told).isEqualTo(all);
      }
    }
  }

  // As those are promised who watch.
  private static void add(WatchServersResponse news, TreeMap<String, Server> told) {
    assertThat(news.getReset()).isFalse();
    assertThat(news.getComplete()).isTrue();
    assertThat(told.keySet()).containsAll(news.getRemovedList());
    news.getRemovedList().forEach(told::remove);
    news.getServersList().forEach(server -> told.put(server.getInfo().getName(), server));
  }
}
