package berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import berth.rpc.Messages;
import berth.v1.ExitReason;
import berth.v1.GpuRequest;
import berth.v1.ListRunsResponse;
import berth.v1.ListServicesResponse;
import berth.v1.Owner;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.Run;
import berth.v1.RunCodeRequest;
import berth.v1.RunExited;
import berth.v1.RunStarted;
import berth.v1.RunState;
import berth.v1.RuntimeInfo;
import berth.v1.Service;
import berth.v1.Source;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import org.junit.jupiter.api.Test;

class RunTableTest {
  private static final Instant NOW = Instant.parse("2026-11-16T06:00:00Z");
  private final RunTable table = new RunTable(new TimeText(NOW, ZoneOffset.UTC));

  @Test
  void showsEveryStateInALine() {
    ListRunsResponse response =
        ListRunsResponse.newBuilder()
            .setServer("gpu01")
            .addRuns(
                run("run-1", RunState.RUN_STATE_ENDED)
                    .setExited(ended(ExitReason.EXIT_REASON_FINISHED, 0)))
            .addRuns(
                run("run-2", RunState.RUN_STATE_ENDED)
                    .setExited(ended(ExitReason.EXIT_REASON_OUT_OF_MEMORY, 137)))
            .addRuns(
                run("run-3", RunState.RUN_STATE_RUNNING)
                    .setStarted(
                        RunStarted.newBuilder()
                            .setStartedAt(Messages.timestamp(NOW.minusSeconds(90))))
                    .setReservation(
                        Reservation.newBuilder()
                            .addGpus(ReservedGpu.newBuilder().setIndex(0))
                            .addGpus(ReservedGpu.newBuilder().setIndex(3))))
            .addRuns(run("run-4", RunState.RUN_STATE_PREPARING))
            .addRuns(
                run("run-5", RunState.RUN_STATE_QUEUED)
                    .setAhead(2)
                    .setRequest(
                        RunCodeRequest.newBuilder()
                            .setGpus(GpuRequest.newBuilder().setCount(-1))
                            .setOwner(Owner.newBuilder().setUser("bob").setHost("pc"))
                            .setName("evil\033[2Jname")))
            .build();

    assertThat(table.render(response, false))
        .isEqualTo(
            """
            gpu01
            RUN    STATE                    GPUS       OWNER    SINCE     TIME  NAME
            run-1  exit 0                              ann@lap  05:50:00  5m    train.py --epochs 3
            run-2  out of memory, exit 137             ann@lap  05:50:00  5m    train.py --epochs 3
            run-3  running                  0,3        ann@lap  05:58:30  90s   train.py --epochs 3
            run-4  preparing                           ann@lap  05:50:00  10m   train.py --epochs 3
            run-5  waiting behind 2         wants all  bob@pc   05:50:00  10m   evil?[2Jname
            """);
  }

  @Test
  void hidesWhatEndedLongAgoUnlessAsked() {
    ListRunsResponse.Builder response = ListRunsResponse.newBuilder().setServer("gpu01");
    for (int i = 1; i <= 8; i++) {
      response.addRuns(
          run("run-" + i, RunState.RUN_STATE_ENDED)
              .setExited(ended(ExitReason.EXIT_REASON_FINISHED, 0)));
    }
    response.addRuns(run("run-9", RunState.RUN_STATE_RUNNING));

    assertThat(table.render(response.build(), false).lines())
        .hasSize(8)
        .first()
        .isEqualTo("gpu01, without 3 that ended earlier (shown by --all)");
    assertThat(table.render(response.build(), false))
        .contains("run-4", "run-9")
        .doesNotContain("run-3");
    assertThat(table.render(response.build(), true).lines()).hasSize(11).first().isEqualTo("gpu01");
    assertThat(table.render(ListRunsResponse.newBuilder().setServer("gpu01").build(), false))
        .isEqualTo("gpu01: no runs\n");
  }

  @Test
  void showsServicesAndHowTheyAreRun() {
    ListServicesResponse response =
        ListServicesResponse.newBuilder()
            .setRuntime(
                RuntimeInfo.newBuilder()
                    .setName("docker")
                    .setEngine("Docker 20.10.24")
                    .setUsable(true)
                    .setGpuAccess("device requests"))
            .addServices(
                Service.newBuilder()
                    .setName("tensorflow")
                    .addAliases("tf")
                    .setImage("tf:2.21")
                    .addInterpreter("python3")
                    .addInterpreter("-u")
                    .setDescription("TensorFlow"))
            .build();

    assertThat(ServicesCommand.render("gpu01:18812", response))
        .isEqualTo(
            """
            gpu01:18812: Docker 20.10.24, GPUs: device requests
            SERVICE         IMAGE    INTERPRETER  DESCRIPTION
            tensorflow, tf  tf:2.21  python3 -u   TensorFlow
            """);
  }

  private static Run.Builder run(String id, RunState state) {
    return Run.newBuilder()
        .setRunId(id)
        .setState(state)
        .setAcceptedAt(Messages.timestamp(NOW.minusSeconds(600)))
        .setRequest(
            RunCodeRequest.newBuilder()
                .setOwner(Owner.newBuilder().setUser("ann").setHost("lap"))
                .setSource(Source.newBuilder().setFileName("train.py"))
                .addCommand("--epochs")
                .addCommand("3"));
  }

  private static RunExited ended(ExitReason reason, int code) {
    return RunExited.newBuilder()
        .setReason(reason)
        .setExitCode(code)
        .setWallTime(Messages.duration(Duration.ofMinutes(5)))
        .build();
  }
}
