package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.spec.GpuChoice;
import berth.client.spec.IdleLimit;
import berth.client.spec.ReservationSpec;
import berth.client.spec.RunSpec;
import berth.client.spec.RunUser;
import berth.fake.FakeRuns;
import berth.fake.Upload;
import berth.rpc.BerthException;
import berth.rpc.Messages;
import berth.v1.Entrypoint;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Limits;
import berth.v1.ListServicesResponse;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.RunCodeRequest;
import berth.v1.Service;
import berth.v1.UserId;
import berth.v1.WaitTime;
import berth.v1.WarningSignal;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RunRequestsTest {
  private static final ListServicesResponse SERVICES =
      ListServicesResponse.newBuilder()
          .addServices(
              Service.newBuilder()
                  .setName("TensorFlow")
                  .addAliases("tf")
                  .addAllInterpreter(List.of("service-python", "-u")))
          .build();

  @TempDir private Path folder;
  private final FakeRuns server = new FakeRuns();
  private final RunClient client = RunClient.of(server.address());

  @AfterEach
  void close() {
    client.close();
    server.close();
  }

  @Test
  void aRequestHasAllThatASpecSays() {
    RunSpec spec =
        RunSpec.builder()
            .name("study")
            .service("tf")
            .entrypoint(List.of("tini", "--"))
            .command("train")
            .env("A", "1")
            .gpus(2)
            .gpuModel("A100")
            .minGpuMemory("40g")
            .memory("8g")
            .cpus(1.5)
            .sharedMemory("1g")
            .timeLimit("2h")
            .signalBeforeTimeLimit("USR1", Duration.ofMinutes(1))
            .stopGrace(Duration.ofSeconds(30))
            .processes(100)
            .user(new RunUser(1000, 100))
            .idle(IdleLimit.parse("5%@30m"))
            .ports(3)
            .hostNetwork()
            .mount("/data", "/in", true)
            .waitAtMost("10m")
            .build();

    RunCodeRequest request = request(spec);

    assertThat(request)
        .isEqualTo(
            RunCodeRequest.newBuilder()
                .setName("study")
                .setService("tf")
                .setEntrypoint(Entrypoint.newBuilder().addWords("tini").addWords("--"))
                .putEnv("A", "1")
                .setGpus(
                    GpuRequest.newBuilder()
                        .setCount(2)
                        .setModel("A100")
                        .setMinFreeMemoryBytes(40L << 30))
                .setLimits(
                    Limits.newBuilder()
                        .setMemoryBytes(8L << 30)
                        .setCpus(1.5)
                        .setSharedMemoryBytes(1L << 30)
                        .setTime(Messages.duration(Duration.ofHours(2)))
                        .setWarning(
                            WarningSignal.newBuilder()
                                .setSignal("USR1")
                                .setBefore(Messages.duration(Duration.ofMinutes(1))))
                        .setStopGrace(Messages.duration(Duration.ofSeconds(30)))
                        .setProcesses(100)
                        .setIdle(
                            berth.v1.IdleLimit.newBuilder()
                                .setBelowPercent(5)
                                .setTime(Messages.duration(Duration.ofMinutes(30)))))
                .setPortCount(3)
                .setUser(UserId.newBuilder().setUid(1000).setGid(100))
                .setNetwork(Network.NETWORK_HOST)
                .addMounts(Mount.newBuilder().setSource("/data").setTarget("/in").setReadOnly(true))
                .setWait(WaitTime.newBuilder().setAtMost(Messages.duration(Duration.ofMinutes(10))))
                .setOwner(ThisUser.owner())
                .build());
  }

  @Test
  void exactGpusAreAskedForInPlaceOfANumberAndTheOtherWayRound() {
    RunSpec.Builder spec = RunSpec.builder().image("x").gpus(2).exactGpus("GPU-a", "3");

    assertThat(request(spec.build()).getGpus())
        .isEqualTo(
            GpuRequest.newBuilder()
                .setExactly(GpuSet.newBuilder().addIds("GPU-a").addIds("3"))
                .build());
    assertThat(request(spec.gpus(1).build()).getGpus())
        .isEqualTo(GpuRequest.newBuilder().setCount(1).build());
  }

  @Test
  void aSpecThatContradictsItselfIsRefused() {
    assertThatThrownBy(() -> RunSpec.builder().image("x").exactGpus("0", "0").build())
        .hasMessage("GPU given twice: 0, 0");
    assertThatThrownBy(() -> new GpuChoice(2, List.of("0"), "", 0))
        .hasMessage("both a number of GPUs (2) and exact GPUs [0] are asked for");
    assertThatThrownBy(
            () ->
                RunSpec.builder()
                    .image("x")
                    .signalBeforeTimeLimit("USR1", Duration.ofSeconds(60))
                    .build())
        .hasMessage("a signal before the time limit requires a time limit");
    assertThatThrownBy(() -> new RunUser(-1, 0))
        .hasMessage("user and group must not be negative: -1:0");
  }

  @Test
  void theUserOfThisProcessIsTheOneThatItsFilesBelongTo() throws Exception {
    Path file = Files.createFile(folder.resolve("mine"));

    assertThat(RunUser.current().uid()).isEqualTo(Files.getAttribute(file, "unix:uid"));
  }

  @Test
  void messagesDoNotSpeakOfOptions() throws Exception {
    String script = script("a.R");

    assertThatThrownBy(() -> complete(RunSpec.builder().script(script).build()))
        .hasMessage(
            "no interpreter for "
                + script
                + ": name one, or use a service that has one, a #! line, or the extension .py or"
                + " .sh");
    assertThatThrownBy(() -> complete(RunSpec.builder().script("/none/a.py").build()))
        .hasMessage("there is no file /none/a.py");
  }

  @Test
  void aNegativeNumberOfGpusIsRefusedAndNotTakenForAll() {
    assertThatThrownBy(() -> RunSpec.builder().gpus(-1))
        .isInstanceOf(BerthException.class)
        .hasMessage("number of GPUs must not be negative: -1 (use allGpus() for all)");
    assertThatThrownBy(() -> ReservationSpec.builder().gpus(-2))
        .isInstanceOf(BerthException.class)
        .hasMessage("number of GPUs must not be negative: -2 (use allGpus() for all)");
    assertThat(
            PlacedReservation.request(ReservationSpec.builder().allGpus().build())
                .getGpus()
                .getCount())
        .isEqualTo(-1);
  }

  @Test
  void waitsForEverForGpusAndForNothingWithout() {
    assertThat(request(RunSpec.builder().image("x").allGpus().build()))
        .matches(request -> request.getGpus().getCount() == -1)
        .matches(request -> request.getWait().getForever());
    assertThat(request(RunSpec.builder().image("x").build()))
        .matches(request -> request.getImage().equals("x"))
        .matches(request -> !request.hasGpus() && !request.hasWait());
  }

  @Test
  void changesTheWordsOfACommandAndTheArgumentsOfAScript() throws Exception {
    String script = script("a{x}.py");

    RunCodeRequest command = complete(RunSpec.builder().command("run{x}", "--at={x}").build());
    RunCodeRequest source = complete(RunSpec.builder().script(script, "--at={x}").build());

    assertThat(command.getCommandList()).containsExactly("run1", "--at=1");
    assertThat(source.getSource().getFileName()).isEqualTo("a{x}.py");
    assertThat(source.getCommandList()).containsExactly("--at=1");
  }

  @Test
  void aScriptInAFolderIsRunByTheInterpreterOfTheService() throws Exception {
    script("train.py");

    RunCodeRequest request =
        complete(RunSpec.builder().service("TF").files(folder).script("train.py", "-e").build());

    assertThat(request.getCommandList()).containsExactly("service-python", "-u", "train.py", "-e");
    assertThat(request.getBundle()).matches("[0-9a-f]{64}");
  }

  @Test
  void packagesAreInstalledBeforeAScriptThatIsSentAlone() throws Exception {
    String script = script("train.py");

    RunCodeRequest request =
        complete(RunSpec.builder().service("tf").script(script, "-e").pip(List.of("a")).build());

    assertThat(request.getSource().getInterpreterList())
        .startsWith("sh", "-c")
        .endsWith("berth-pip", "service-python", "-u");
    assertThat(request.getCommandList()).containsExactly("-e");
    assertThat(request.getName()).isEqualTo(script + " -e");
  }

  @Test
  void packagesAreInstalledBeforeAScriptInAFolderAndBeforeACommand() throws Exception {
    script("train.py");
    RunSpec.Builder spec = RunSpec.builder().name("mine").files(folder).pip(List.of("a"));

    RunCodeRequest script = complete(spec.script("train.py", "-e").build());
    RunCodeRequest command = complete(spec.command("train", "-e").build());

    assertThat(script.getCommandList())
        .startsWith("sh", "-c")
        .endsWith("berth-pip", "python3", "-u", "train.py", "-e");
    assertThat(command.getCommandList())
        .startsWith("sh", "-c")
        .endsWith("berth-pip", "train", "-e");
    assertThat(command.getName()).isEqualTo("mine");
  }

  @Test
  void anEntrypointThatIsGivenRunsTheProgramAndNotTheInstallation() throws Exception {
    RunCodeRequest request =
        complete(
            RunSpec.builder()
                .image("x")
                .entrypoint(List.of("python3", "-X", "dev"))
                .command("train.py")
                .pip(List.of("a"))
                .build());

    assertThat(request.getCommandList()).endsWith("berth-pip", "python3", "-X", "dev", "train.py");
    assertThat(request.hasEntrypoint()).isTrue();
    assertThat(request.getEntrypoint().getWordsList()).isEmpty();
  }

  @Test
  void packagesWithoutAProgramAreRefused() {
    assertThatThrownBy(() -> RunSpec.builder().image("x").pip(List.of("a")).build())
        .isInstanceOf(BerthException.class)
        .hasMessage("Python packages require a script or a command");
  }

  private String script(String name) throws IOException {
    return Files.writeString(folder.resolve(name), "print(1)\n").toString();
  }

  private static RunCodeRequest request(RunSpec spec) {
    try (RunRequests requests = new RunRequests(spec)) {
      return requests.request().build();
    }
  }

  private RunCodeRequest complete(RunSpec spec) throws IOException {
    server.onUpload = answer -> new Upload(answer, false);
    try (RunRequests requests = new RunRequests(spec)) {
      RunCodeRequest.Builder request = requests.request();
      requests.complete(request, client, SERVICES, word -> word.replace("{x}", "1"));
      return request.build();
    }
  }
}
