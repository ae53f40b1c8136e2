package berth.server;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.DirectCall;
import berth.server.cluster.EndedCluster;
import berth.server.run.EndedRun;
import berth.v1.AttachRunRequest;
import berth.v1.CancelClusterRequest;
import berth.v1.CancelRunRequest;
import berth.v1.DownloadFilesRequest;
import berth.v1.DownloadFilesResponse;
import berth.v1.GetGpuHistoryRequest;
import berth.v1.GetRunRequest;
import berth.v1.HealGpuRequest;
import berth.v1.ListClustersRequest;
import berth.v1.ListGpusRequest;
import berth.v1.ListReservationsRequest;
import berth.v1.ListRunsRequest;
import berth.v1.ListRunsResponse;
import berth.v1.ListServicesRequest;
import berth.v1.Owner;
import berth.v1.ReleaseRequest;
import berth.v1.RemoveRunRequest;
import berth.v1.RenewRequest;
import berth.v1.RunEvent;
import berth.v1.RunSelection;
import berth.v1.SetDrainingRequest;
import berth.v1.StartClusterRequest;
import berth.v1.WatchClusterRequest;
import berth.v1.WatchGpusRequest;
import berth.v1.WatchOverviewRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Requests to a berthd that knows a run and a cluster. The first byte of the input says which
 * request it is. Those with a target of their own are not among them.
 */
class ServerRequestFuzzTest {
  private record Asked(String method, MessageLite sample) {}

  private static final List<Asked> KINDS = kinds();
  private static final Set<Status.Code> OUR_FAULT =
      EnumSet.of(Status.Code.INTERNAL, Status.Code.UNKNOWN, Status.Code.DATA_LOSS);

  private static LocalServer server;

  @BeforeAll
  static void open() throws Exception {
    server = new LocalServer();
  }

  @AfterAll
  static void close() {
    server.close();
  }

  private static List<Asked> kinds() {
    Owner anna = Owner.newBuilder().setUser("anna").setHost("desk").build();
    return List.of(
        new Asked("GpuService/ListGpus", ListGpusRequest.getDefaultInstance()),
        new Asked("GpuService/WatchGpus", WatchGpusRequest.getDefaultInstance()),
        new Asked("GpuService/GetGpuHistory", GetGpuHistoryRequest.getDefaultInstance()),
        new Asked(
            "GpuService/HealGpu", HealGpuRequest.newBuilder().setGpu("0").setForce(true).build()),
        new Asked(
            "ReservationService/Renew",
            RenewRequest.newBuilder()
                .setReservationId("r-1")
                .setLease(Duration.newBuilder().setSeconds(60))
                .build()),
        new Asked(
            "ReservationService/Release",
            ReleaseRequest.newBuilder().setReservationId("r-1").build()),
        new Asked(
            "ReservationService/ListReservations", ListReservationsRequest.getDefaultInstance()),
        new Asked(
            "ReservationService/SetDraining",
            SetDrainingRequest.newBuilder().setDraining(true).build()),
        new Asked(
            "RunService/AttachRun",
            AttachRunRequest.newBuilder().setRunId(EndedRun.ID).setFromOffset(3).build()),
        new Asked("RunService/GetRun", GetRunRequest.newBuilder().setRunId(EndedRun.ID).build()),
        new Asked(
            "RunService/ListRuns",
            ListRunsRequest.newBuilder()
                .setPageSize(1)
                .setPageToken("2")
                .setIdPrefix("run-")
                .setSelection(RunSelection.RUN_SELECTION_ENDED)
                .build()),
        new Asked(
            "RunService/CancelRun",
            CancelRunRequest.newBuilder().setRunId(EndedRun.ID).setBy(anna).build()),
        new Asked("RunService/RemoveRun", RemoveRunRequest.newBuilder().setRunId("run-2").build()),
        new Asked(
            "RunService/DownloadFiles",
            DownloadFilesRequest.newBuilder().setRunId(EndedRun.ID).addPaths("model").build()),
        new Asked("RunService/ListServices", ListServicesRequest.getDefaultInstance()),
        new Asked(
            "ClusterService/StartCluster",
            StartClusterRequest.newBuilder().setName("study").setOwner(anna).build()),
        new Asked("ClusterService/ListClusters", ListClustersRequest.getDefaultInstance()),
        new Asked(
            "ClusterService/WatchCluster",
            WatchClusterRequest.newBuilder().setClusterId(EndedCluster.ID).setOnce(true).build()),
        new Asked(
            "ClusterService/CancelCluster",
            CancelClusterRequest.newBuilder().setClusterId(EndedCluster.ID).setBy(anna).build()),
        new Asked("OverviewService/WatchOverview", WatchOverviewRequest.getDefaultInstance()));
  }

  static Stream<byte[]> seeds() {
    List<byte[]> seeds = new ArrayList<>();
    for (int i = 0; i < KINDS.size(); i++) {
      seeds.add(
          ByteString.copyFrom(new byte[] {(byte) i})
              .concat(KINDS.get(i).sample.toByteString())
              .toByteArray());
    }
    return seeds.stream();
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredOnceOrRefusedWithASentence(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    String name = KINDS.get((data[0] & 0xff) % KINDS.size()).method;
    byte[] message = Arrays.copyOfRange(data, 1, data.length);
    if (name.endsWith("RemoveRun") && removesTheRun(message)) {
      return;
    }
    DirectCall<?, ?> call = DirectCall.to(server.method("berth.v1." + name));
    if (!call.send(message)) {
      return;
    }
    call.halfClose();
    boolean endless = name.contains("/Watch");
    call.await(endless ? 1 : Integer.MAX_VALUE);
    call.cancel();
    assertThat(call.misuse()).isEmpty();
    if (call.status() != null) {
      checkEnd(call, name);
    }
    checkAnswers(call.answers(), name, message);
  }

  // The others ask for it.
  private static boolean removesTheRun(byte[] message) {
    try {
      return RemoveRunRequest.parseFrom(message).getRunId().equals(EndedRun.ID);
    } catch (InvalidProtocolBufferException e) {
      return false;
    }
  }

  private static void checkEnd(DirectCall<?, ?> call, String name) {
    Status status = call.status();
    assertThat(status.getCode()).as(name).isNotIn(OUR_FAULT);
    if (!status.isOk()) {
      assertThat(status.getDescription()).as(name).isNotBlank();
    }
  }

  private static void checkAnswers(List<?> answers, String name, byte[] message) throws Exception {
    switch (name) {
      case "RunService/AttachRun" -> checkOutput(answers, AttachRunRequest.parseFrom(message));
      case "RunService/ListRuns" -> checkPage(answers, ListRunsRequest.parseFrom(message));
      case "RunService/DownloadFiles" -> {
        for (Object answer : answers) {
          String piece =
              ((DownloadFilesResponse) answer)
                  .getData()
                  .toString(java.nio.charset.StandardCharsets.ISO_8859_1);
          // Its record and its output are beside its files.
          assertThat(piece).doesNotContain("epoch", "ended.code");
        }
      }
      default -> {}
    }
  }

  private static void checkOutput(List<?> answers, AttachRunRequest request) {
    StringBuilder printed = new StringBuilder();
    boolean exited = false;
    for (Object answer : answers) {
      RunEvent event = (RunEvent) answer;
      printed.append(event.getOutput().getData().toStringUtf8());
      exited |= event.hasExited();
    }
    if (exited) {
      assertThat(printed.toString())
          .isEqualTo(
              request.getNoOutput()
                  ? ""
                  : EndedRun.OUTPUT.substring(Math.toIntExact(request.getFromOffset())));
    }
  }

  private static void checkPage(List<?> answers, ListRunsRequest request) {
    for (Object answer : answers) {
      ListRunsResponse page = (ListRunsResponse) answer;
      assertThat(page.getRunsCount()).isLessThanOrEqualTo(page.getTotalCount());
      assertThat(page.getRunsList())
          .allMatch(run -> run.getRunId().startsWith(request.getIdPrefix()));
    }
  }
}
