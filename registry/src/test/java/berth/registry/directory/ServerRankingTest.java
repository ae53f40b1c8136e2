package berth.registry.directory;

import static berth.registry.directory.SampleServers.GIB;
import static berth.registry.directory.SampleServers.info;
import static berth.registry.directory.SampleServers.listed;
import static berth.registry.directory.SampleServers.status;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.Vitals;
import berth.v1.Candidate;
import berth.v1.FindGpusRequest;
import berth.v1.FindGpusResponse;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.GpuState;
import berth.v1.ServerFilter;
import berth.v1.ServerStatus;
import berth.v1.Service;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ServerRankingTest {
  private final Roster roster = new Roster("test", new Vitals());
  private long revision;

  @AfterEach
  void close() {
    roster.close();
  }

  @Test
  void theServerThatWouldHaveTheFewestLeftComesFirst() {
    put("a", 8, status(8, 8));
    put("b", 4, status(4, 2));
    put("c", 4, status(4, 3));

    assertThat(names(count(2))).containsExactly("b", "c", "a");
  }

  @Test
  void serversThatCouldOnlyLaterComeLastShortestQueueFirst() {
    put("busy", 4, status(4, 1).toBuilder().setQueueLength(3).build());
    put("short", 4, status(4, 1).toBuilder().setQueueLength(1).build());
    put("free", 4, status(4, 4));

    FindGpusResponse found = find(count(2));

    assertThat(found.getCandidatesList())
        .extracting(Candidate::getNow)
        .containsExactly(true, false, false);
    assertThat(names(count(2))).containsExactly("free", "short", "busy");
  }

  @Test
  void whereSomebodyWaitsNobodyOvertakes() {
    put("a", 4, status(4, 4).toBuilder().setQueueLength(1).build());

    assertThat(find(count(1)).getCandidates(0).getNow()).isFalse();
  }

  @Test
  void drainingAndSickServersAreLeftOut() {
    put("draining", 4, status(4, 4).toBuilder().setDraining(true).build());
    put("cannot", 4, status(4, 4).toBuilder().setCanRun(false).build());
    ServerStatus.Builder sick = status(2, 2).toBuilder();
    sick.getGpusBuilder(0).setState(GpuState.GPU_STATE_UNHEALTHY);
    put("sick", 2, sick.build());

    assertThat(names(FindGpusRequest.newBuilder().setToRun(true).setGpus(gpus(1)).build()))
        .containsExactly("sick");
    assertThat(names(FindGpusRequest.newBuilder().setGpus(gpus(2)).build()))
        .containsExactly("cannot");
  }

  @Test
  void modelAndMemoryAreThoseOfTheGpusThatAreFree() {
    roster.put(listed(info("small", "s:1", 4, "NVIDIA T4", 16 * GIB), status(4, 4)), ++revision);
    put("large", 4, status(4, 4));

    assertThat(names(request(gpus(1).toBuilder().setModel("t4").build()))).containsExactly("small");
    assertThat(names(request(gpus(1).toBuilder().setMinFreeMemoryBytes(20 * GIB).build())))
        .containsExactly("large");
    assertThat(find(request(gpus(1).toBuilder().setModel("H100").build())).getProblem())
        .isEqualTo("1 GPU asked, no server has more than 0 healthy ones of that kind");
  }

  @Test
  void memoryThatIsInUseIsNotFree() {
    ServerStatus.Builder used = status(1, 1).toBuilder();
    used.getGpusBuilder(0).setFreeMemoryBytes(10 * GIB);
    put("a", 1, used.build());

    GpuRequest wanted = gpus(1).toBuilder().setMinFreeMemoryBytes(20 * GIB).build();

    assertThat(find(request(wanted)).getCandidates(0).getNow()).isFalse();
  }

  @Test
  void allMeansAllHealthyOnes() {
    put("half", 4, status(4, 2));
    put("idle", 2, status(2, 2));
    put("none", 0, status(0, 0));

    FindGpusResponse found = find(count(-1));

    assertThat(names(count(-1))).containsExactly("idle", "half");
    assertThat(found.getCandidates(0).getNow()).isTrue();
    assertThat(found.getCandidates(1).getNow()).isFalse();
  }

  @Test
  void givenGpusAreFoundByUuid() {
    put("a", 4, status(4, 4));
    put("b", 4, status(4, 1));

    FindGpusResponse found = find(exactly("gpu-b-0", "GPU-b-2"));

    assertThat(found.getCandidatesList())
        .singleElement()
        .extracting(Candidate::getNow)
        .isEqualTo(false);
    assertThat(find(exactly("GPU-b-0")).getCandidates(0).getNow()).isTrue();
    assertThat(find(exactly("GPU-c-0")).getProblem()).isEqualTo("no server has the GPUs GPU-c-0");
  }

  @Test
  void whatNeedsNoGpuGoesWhereTheFewestAreFree() {
    put("gpus", 4, status(4, 4));
    put("none", 0, status(0, 0));

    assertThat(names(FindGpusRequest.getDefaultInstance())).containsExactly("none", "gpus");
  }

  @Test
  void saysWhyNobodyCanTakeIt() {
    assertThat(find(count(1)).getProblem()).isEqualTo("no server is registered");
    put("a", 2, status(2, 2));
    assertThat(find(count(3)).getProblem())
        .isEqualTo("3 GPUs asked, no server has more than 2 healthy ones");
    assertThat(
            find(count(1).toBuilder()
                    .setFilter(ServerFilter.newBuilder().setService("caffe"))
                    .build())
                .getProblem())
        .isEqualTo("no server has the service 'caffe'; services: TensorFlow");
    put("a", 2, status(2, 2).toBuilder().setDraining(true).build());
    assertThat(find(count(1)).getProblem())
        .isEqualTo("all 1 servers that fit are draining or cannot run anything");
  }

  @Test
  void saysWhichPartOfTheFilterNoServerPasses() {
    put("a", 2, status(2, 2));
    put("b", 2, status(2, 2));

    assertThat(problem(ServerFilter.newBuilder().setService("TensorFlow").putLabels("room", "xyz")))
        .isEqualTo("no server has the label room=xyz; there are room=b12");
    assertThat(problem(ServerFilter.newBuilder().putLabels("rom", "b12")))
        .isEqualTo(
            "no server has the label rom=b12, nor any other label 'rom'; see 'berth servers'");
    assertThat(problem(ServerFilter.newBuilder().putLabels("room", "b12").putLabels("a", "1")))
        .isEqualTo("no server has the labels a=1, room=b12; see 'berth servers'");
    assertThat(problem(ServerFilter.newBuilder().addNames("c")))
        .isEqualTo("no server is called c; there are a, b");
    assertThat(problem(ServerFilter.newBuilder().putLabels("room", "b12").setModel("H100")))
        .isEqualTo("no server with the label room=b12 has such GPUs; see 'berth gpus'");
  }

  @Test
  void namesTheServicesThereAreAndTheOneThatWasMeant() {
    put("a", 2, status(2, 2));
    roster.put(
        listed(
            info("b", "b:1", 0, "", 0).toBuilder()
                .clearLabels()
                .addServices(Service.newBuilder().setName("shell"))
                .build(),
            status(0, 0)),
        ++revision);

    assertThat(problem(ServerFilter.newBuilder().setService("shel")))
        .isEqualTo(
            "no server has the service 'shel'; did you mean 'shell'? Services: TensorFlow, shell");
    assertThat(problem(ServerFilter.newBuilder().setService("shell").putLabels("room", "b12")))
        .isEqualTo("no server with the label room=b12 has the service 'shell'; found on: b");
  }

  private String problem(ServerFilter.Builder filter) {
    return find(FindGpusRequest.newBuilder().setFilter(filter).build()).getProblem();
  }

  @Test
  void refusesWhatIsNoRequest() {
    assertThatThrownBy(() -> find(count(0)))
        .hasMessage("ask for at least 1 GPU, for all, or for exact ones");
    assertThatThrownBy(() -> find(exactly()))
        .hasMessage("ask for at least 1 GPU, for all, or for exact ones");
  }

  private void put(String name, int gpus, ServerStatus status) {
    roster.put(
        listed(info(name, name + ":1", gpus, "NVIDIA A100-SXM4-80GB", 80 * GIB), status),
        ++revision);
  }

  private FindGpusResponse find(FindGpusRequest request) {
    return ServerRanking.find(roster, request);
  }

  private List<String> names(FindGpusRequest request) {
    return find(request).getCandidatesList().stream()
        .map(candidate -> candidate.getServer().getInfo().getName())
        .toList();
  }

  private static FindGpusRequest count(int count) {
    return request(gpus(count));
  }

  private static FindGpusRequest exactly(String... ids) {
    return request(
        GpuRequest.newBuilder().setExactly(GpuSet.newBuilder().addAllIds(List.of(ids))).build());
  }

  private static FindGpusRequest request(GpuRequest gpus) {
    return FindGpusRequest.newBuilder().setGpus(gpus).build();
  }

  private static GpuRequest gpus(int count) {
    return GpuRequest.newBuilder().setCount(count).build();
  }
}
