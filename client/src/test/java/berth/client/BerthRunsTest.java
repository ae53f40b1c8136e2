package berth.client;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.ThisUser;
import berth.fake.FakeRegistry;
import berth.fake.FakeRuns;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.rpc.Reason;
import berth.v1.CancelRunRequest;
import berth.v1.ExitReason;
import berth.v1.ListRunsResponse;
import berth.v1.Owner;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunExited;
import berth.v1.RunStarted;
import berth.v1.RunState;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.compress.archivers.tar.TarArchiveEntry;
import org.apache.commons.compress.archivers.tar.TarArchiveOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs that exist, found through a registry by those who did not start them. */
class BerthRunsTest {
  private static final Instant NOON = Instant.parse("2026-01-02T12:00:00Z");
  private static final Run ENDED =
      Run.newBuilder()
          .setRunId(FakeRuns.ID)
          .setServer("gpu01")
          .setState(RunState.RUN_STATE_ENDED)
          .setAcceptedAt(Messages.timestamp(NOON))
          .setRequest(
              RunCodeRequest.newBuilder()
                  .setName("study")
                  .setOwner(Owner.newBuilder().setUser("ada"))
                  .addCommand("train"))
          .setReservation(
              Reservation.newBuilder().addGpus(ReservedGpu.newBuilder().setIndex(1).setUuid("b")))
          .setStarted(RunStarted.getDefaultInstance())
          .setExited(
              RunExited.newBuilder().setReason(ExitReason.EXIT_REASON_FINISHED).setExitCode(3))
          .build();
  private static final Run QUEUED =
      Run.newBuilder()
          .setRunId("run-77")
          .setServer("gpu01")
          .setState(RunState.RUN_STATE_QUEUED)
          .setAcceptedAt(Messages.timestamp(NOON.plusSeconds(1)))
          .setWaitingBecause("it drains")
          .build();

  @TempDir private Path folder;
  private final FakeRegistry registry = new FakeRegistry();
  private final FakeRuns runs = new FakeRuns();
  private final Berth berth = Berth.connect(registry.address().toString());

  @BeforeEach
  void start() {
    registry.servers = List.of(FakeRegistry.server("gpu01", runs.address(), 1, 1));
    runs.runs = ListRunsResponse.newBuilder().addRuns(ENDED).addRuns(QUEUED).build();
  }

  @AfterEach
  void close() {
    berth.close();
    registry.close();
    runs.close();
  }

  @Test
  void listsRunsAndSaysWhichServersDidNotAnswer() {
    assertThat(berth.runs("gpu01"))
        .extracting(RunInfo::runId)
        .containsExactly(FakeRuns.ID, "run-77");
    registry.servers =
        List.of(
            FakeRegistry.server("gone", new Address("127.0.0.1", 1), 1, 1),
            FakeRegistry.server("gpu01", runs.address(), 1, 1));

    RunList list = berth.runs();

    assertThat(list.runs()).extracting(RunInfo::runId).containsExactly(FakeRuns.ID, "run-77");
    assertThat(list.silent())
        .isEqualTo(Map.of("gone", "no berthd at 127.0.0.1:1: Connection refused"));
  }

  @Test
  void tellsWhatIsKnownOfARun() {
    RunInfo ended = berth.findRun(FakeRuns.ID);
    RunInfo queued = berth.findRun("run-7");

    assertThat(ended.result()).map(RunResult::exitCode).contains(3);
    assertThat(ended)
        .isEqualTo(
            new RunInfo(
                FakeRuns.ID,
                "gpu01",
                "study",
                "ada",
                List.of("train"),
                RunInfo.State.ENDED,
                NOON,
                List.of(new HeldGpu(1, "b")),
                "",
                ended.result()));
    assertThat(ended.reference()).isEqualTo(new DetachedRun("gpu01", FakeRuns.ID));
    assertThat(queued.state()).isEqualTo(RunInfo.State.QUEUED);
    assertThat(queued.why()).isEqualTo("it drains");
    assertThat(queued.result()).isEqualTo(Optional.empty());
  }

  @Test
  void findsNoRunThatIsNotThereNorOneOfSeveral() {
    assertFails(() -> berth.findRun("nope"), Reason.NOT_FOUND, "there is no run 'nope'");
    assertFails(
        () -> berth.findRun("run-"),
        Reason.INVALID,
        "'run-' matches several runs: run-77, run-6b1fd2c9aa");
  }

  @Test
  void cancelsAndRemovesByTheWholeIdOnly() {
    berth.cancelRun("run-77");
    berth.removeRun(FakeRuns.ID);

    assertThat(runs.cancelled).extracting(CancelRunRequest::getRunId).containsExactly("run-77");
    assertThat(runs.cancelled.peek().getBy()).isEqualTo(ThisUser.owner());
    assertThat(runs.removed).containsExactly(FakeRuns.ID);
    assertFails(
        () -> berth.cancelRun("run-7"),
        Reason.NOT_FOUND,
        "there is no run 'run-7'; the one that begins so is run-77");
  }

  @Test
  void fetchesFilesIntoAFolder() throws Exception {
    runs.files = tar("model/weights", "abc");
    Path target = folder.resolve("new/outputs");

    FetchedFiles fetched = berth.fetchFiles(FakeRuns.ID, target, "model/*");
    berth.fetchFiles(FakeRuns.ID, target);

    assertThat(fetched).isEqualTo(new FetchedFiles(1, List.of()));
    assertThat(target.resolve("model/weights")).hasContent("abc");
    assertThat(runs.downloaded)
        .extracting(request -> List.copyOf(request.getPathsList()))
        .containsExactly(List.of("model/*"), List.of("."));
  }

  @Test
  void whatAServerSendsStaysInTheFolderAndWithinTheLimit() throws Exception {
    runs.files = tar("../outside", "abc");

    assertFails(
        () -> berth.fetchFiles(FakeRuns.ID, folder.resolve("in")),
        Reason.INVALID,
        "will not unpack '../outside': it lies outside of the folder");
    assertThat(folder.resolve("outside")).doesNotExist();

    runs.files = tar("large", "abc");
    assertFails(
        () -> berth.fetchFiles(FakeRuns.ID, folder.resolve("in"), 2, List.of()),
        Reason.EXHAUSTED,
        "will not unpack all of it: the tar unpacks to more than 2 bytes");
    assertThat(folder.resolve("in/large")).doesNotExist();
  }

  private static byte[] tar(String name, String content) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (TarArchiveOutputStream tar = new TarArchiveOutputStream(bytes)) {
      byte[] data = content.getBytes(StandardCharsets.UTF_8);
      TarArchiveEntry entry = new TarArchiveEntry(name);
      entry.setSize(data.length);
      tar.putArchiveEntry(entry);
      tar.write(data);
      tar.closeArchiveEntry();
    }
    return bytes.toByteArray();
  }

  private static void assertFails(
      org.assertj.core.api.ThrowableAssert.ThrowingCallable call, Reason reason, String message) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(BerthException.class, e -> assertThat(e.reason()).isEqualTo(reason))
        .hasMessage(message);
  }
}
