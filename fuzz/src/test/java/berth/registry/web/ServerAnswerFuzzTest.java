package berth.registry.web;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.ShownText;
import berth.http.Conversation;
import berth.http.EventStream;
import berth.http.HttpServer;
import berth.rpc.Address;
import berth.v1.ClusterNote;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.GetGpuHistoryResponse;
import berth.v1.Gpu;
import berth.v1.GpuHistory;
import berth.v1.GpuInfo;
import berth.v1.GpuMemory;
import berth.v1.GpuReport;
import berth.v1.ListClustersResponse;
import berth.v1.ListReservationsResponse;
import berth.v1.OutputStream;
import berth.v1.OutputTruncated;
import berth.v1.Owner;
import berth.v1.RecentRuns;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunState;
import berth.v1.Server;
import berth.v1.ServerInfo;
import berth.v1.TaskAttempt;
import berth.v1.TaskStatus;
import berth.v1.Waiting;
import berth.v1.WatchOverviewResponse;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Timestamp;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What a server tells the page of a registry, and the page tells browsers. The first byte of the
 * input says which answer it is.
 */
class ServerAnswerFuzzTest {
  private static final byte[] ASKED =
      "GET / HTTP/1.1\r\nHost: berth\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
  private static final ServerView KNOWN =
      ServerView.of(
          Server.newBuilder()
              .setInfo(
                  ServerInfo.newBuilder()
                      .setName("gpu1")
                      .setAddress("10.0.0.7:18812")
                      .addGpus(GpuInfo.newBuilder().setUuid("GPU-a").setMemoryBytes(80L << 30)))
              .build(),
          0);

  static Stream<byte[]> seeds() throws IOException {
    Owner anna = Owner.newBuilder().setUser("anna").setHost("desk").build();
    Timestamp noon = Timestamp.newBuilder().setSeconds(1_700_000_000).build();
    Reservation reservation =
        Reservation.newBuilder()
            .setReservationId("r-1")
            .setOwner(anna)
            .setPurpose("digits")
            .setGrantedAt(noon)
            .addGpus(ReservedGpu.newBuilder().setUuid("GPU-a"))
            .build();
    ClusterStatus cluster =
        ClusterStatus.newBuilder()
            .setClusterId("c-1")
            .setName("study")
            .setOwner(anna)
            .setPhase(ClusterPhase.CLUSTER_PHASE_RUNNING)
            .setSubmittedAt(noon)
            .addTasks(
                TaskStatus.newBuilder()
                    .setType("worker")
                    .addAttempts(
                        TaskAttempt.newBuilder().setNumber(1).setServer("gpu1").addGpus(0)))
            .addNotes(ClusterNote.newBuilder().setAt(noon).setText("begun"))
            .build();
    WatchOverviewResponse overview =
        WatchOverviewResponse.newBuilder()
            .setReport(
                GpuReport.newBuilder()
                    .setDriverVersion("550.54")
                    .addGpus(
                        Gpu.newBuilder()
                            .setUuid("GPU-a")
                            .setMemory(GpuMemory.newBuilder().setUsedBytes(1 << 30))
                            .setPowerMilliwatts(250_000)))
            .setReservations(
                ListReservationsResponse.newBuilder()
                    .addReservations(reservation)
                    .addWaiting(Waiting.newBuilder().setOwner(anna).setSince(noon)))
            .setRuns(
                RecentRuns.newBuilder()
                    .addRuns(
                        Run.newBuilder()
                            .setRunId("run-0000000001")
                            .setRequest(
                                RunCodeRequest.newBuilder()
                                    .setImage("a:1")
                                    .setName("worker:0 of cluster c-1")
                                    .addCommand("train"))
                            .setState(RunState.RUN_STATE_RUNNING)
                            .setReservation(reservation)))
            .setClusters(ListClustersResponse.newBuilder().addClusters(cluster))
            .build();
    GetGpuHistoryResponse history =
        GetGpuHistoryResponse.newBuilder()
            .setStep(Duration.newBuilder().setSeconds(1))
            .setAge(Duration.newBuilder().setNanos(500_000_000))
            .addGpus(GpuHistory.newBuilder().setUuid("GPU-a").addUtilizationPercent(-1))
            .build();
    ByteArrayOutputStream events = new ByteArrayOutputStream();
    for (String piece : List.of("é\r\n", "\u001b[1mdata: {}\n\n", "\ud83d\ude00")) {
      RunEvent.newBuilder()
          .setOutput(
              berth.v1.RunOutput.newBuilder()
                  .setStream(OutputStream.OUTPUT_STREAM_STDERR)
                  .setOffset(3)
                  .setData(ByteString.copyFromUtf8(piece).substring(0, 2)))
          .build()
          .writeDelimitedTo(events);
    }
    RunEvent.newBuilder()
        .setTruncated(OutputTruncated.newBuilder().setKeptBytes(7))
        .build()
        .writeDelimitedTo(events);
    RunEvent.newBuilder()
        .setExited(RunExited.newBuilder().setExitCode(1).setMessage("it failed"))
        .build()
        .writeDelimitedTo(events);
    return Stream.of(
        seed(0, overview), seed(1, cluster), seed(2, history), seed(3, events.toByteArray()));
  }

  private static byte[] seed(int kind, MessageLite message) {
    return seed(kind, message.toByteArray());
  }

  private static byte[] seed(int kind, byte[] message) {
    return ByteString.copyFrom(new byte[] {(byte) kind})
        .concat(ByteString.copyFrom(message))
        .toByteArray();
  }

  @MethodSource("seeds")
  @FuzzTest
  void isJsonOfOneLineWithNothingHidden(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    ByteString message = ByteString.copyFrom(data, 1, data.length - 1);
    try {
      switch (data[0] & 3) {
        case 0 -> checkOverview(WatchOverviewResponse.parseFrom(message));
        case 1 -> check(ServerJson.cluster(ClusterStatus.parseFrom(message)));
        case 2 -> check(ServerJson.history(GetGpuHistoryResponse.parseFrom(message), 0));
        default -> checkOutput(events(message));
      }
    } catch (InvalidProtocolBufferException e) {
      // gRPC refuses it.
    }
  }

  private static void checkOverview(WatchOverviewResponse news) {
    ServerView view = KNOWN.with(news);
    check(ServerJson.server(view));
    check(PageJson.object(json -> ServerJson.putSample(json, view)));
    assertThat(ServerJson.looksTheSame(view, KNOWN.with(news))).isTrue();
  }

  private static void check(String json) {
    assertThat(json).doesNotContain("\n", "\r");
    checkTexts(JsonParser.parseString(json));
  }

  private static void checkTexts(JsonElement json) {
    if (json.isJsonObject()) {
      json.getAsJsonObject().asMap().values().forEach(ServerAnswerFuzzTest::checkTexts);
    } else if (json.isJsonArray()) {
      json.getAsJsonArray().forEach(ServerAnswerFuzzTest::checkTexts);
    } else if (json.isJsonPrimitive() && json.getAsJsonPrimitive().isString()) {
      ShownText.check("text", json.getAsString());
    }
  }

  private static List<RunEvent> events(ByteString message) throws IOException {
    ByteArrayInputStream in = new ByteArrayInputStream(message.toByteArray());
    List<RunEvent> events = new ArrayList<>();
    for (RunEvent event; (event = RunEvent.parseDelimitedFrom(in)) != null; ) {
      events.add(event);
    }
    return events;
  }

  private static void checkOutput(List<RunEvent> events) {
    HttpServer.Builder page =
        HttpServer.listenOn(new Address("127.0.0.1", 0))
            .get("/", call -> tell(events, call.events()));
    Conversation conversation = Conversation.of(page, ASKED);
    List<PageEvents.PageEvent> told = PageEvents.read(conversation.answers().get(0).body());
    assertThat(told)
        .extracting(PageEvents.PageEvent::name)
        .isSubsetOf("output", "truncated", "exited");
    assertThat(told).hasSizeLessThanOrEqualTo(events.size());
  }

  private static void tell(List<RunEvent> events, EventStream reader) {
    RunOutput output = new RunOutput(reader);
    events.forEach(output::next);
    output.ended(null);
  }
}
