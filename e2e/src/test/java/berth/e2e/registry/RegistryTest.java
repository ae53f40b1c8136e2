package berth.e2e.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Asked;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Installed.Result;
import berth.e2e.fixture.RunServer;
import berth.v1.Reservation;
import berth.v1.RunState;
import berth.v1.ServerInfo;
import berth.v1.ServerStatus;
import berth.v1.Service;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The command line with a registry and three servers. What the registry knows, the tests say. */
class RegistryTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);
  private static final String[] RUNTIME = {
    "--runtime", "process", "--allow-root", "--sample-interval", "100ms", "--simulate-gpus"
  };

  @TempDir private static Path folder;
  private static Daemon registry;
  private static RunServer gpu01;
  private static RunServer gpu02;
  private static RunServer gpu03;

  private final List<RegisteredServer> registered = new ArrayList<>();
  private final List<Process> processes = new ArrayList<>();

  @BeforeAll
  static void start() throws IOException {
    registry = startRegistry("127.0.0.1:0");
    gpu01 = server("gpu01", 2);
    gpu02 = server("gpu02", 4);
    gpu03 = server("gpu03", 1);
  }

  @BeforeEach
  void register() {
    register("gpu01", gpu01.daemon().address(), 2);
    register("gpu02", gpu02.daemon().address(), 4);
    register("gpu03", gpu03.daemon().address(), 1);
  }

  @AfterEach
  void leavesNothing() {
    processes.forEach(Process::destroyForcibly);
    registered.forEach(RegisteredServer::close);
    for (RunServer server : List.of(gpu01, gpu02, gpu03)) {
      server.assertNothingLeft();
    }
  }

  @AfterAll
  static void stop() {
    gpu01.close();
    gpu02.close();
    gpu03.close();
    registry.close();
  }

  @Test
  void showsTheServersAndWhichOfTheirGpusAreFree() {
    registered.get(1).free(3);
    registered.get(2).say(ServerStatus.newBuilder().setDraining(true).build());

    Result all = berth("servers");
    Result some = berth("servers", "--free", "3", "--label", "room=gpu02", "--service", "TF");
    Result none = berth("servers", "--model", "H100");

    assertThat(all.out().lines().map(line -> line.replaceAll(" +", " ")))
        .containsExactly(
            "NAME ADDRESS GPUS MODEL MEMORY CPUS QUEUE RUNS SERVICES LABELS STATE",
            row(gpu01, "gpu01", "2/2 free", "ok"),
            row(gpu02, "gpu02", "3/4 free", "ok"),
            row(gpu03, "gpu03", "0/1 free", "draining"));
    assertThat(some.out().lines()).hasSize(2).last().asString().startsWith("gpu02 ");
    assertThat(none.err()).isEqualTo("berth: no server has such GPUs; see 'berth gpus'\n");
    assertThat(none.exitCode()).isEqualTo(125);
    assertThat(berth("servers", "--json").out().lines())
        .hasSize(3)
        .first()
        .asString()
        .startsWith("{\"info\":{\"name\":\"gpu01\"");
  }

  private static String row(RunServer server, String name, String gpus, String state) {
    return name
        + " "
        + server.daemon().address()
        + " "
        + gpus
        + " Simulated A100 80GB 64 GiB 8 0 0 tf room="
        + name
        + " "
        + state;
  }

  @Test
  void showsTheGpusOfAllServersAlsoWhenOneIsGone() {
    register("gpu99", "127.0.0.1:1", 1);

    Result result = berth("gpus");

    assertThat(result.out())
        .contains("gpu01 at " + gpu01.daemon().address())
        .contains("gpu02 at " + gpu02.daemon().address())
        .contains("gpu03 at " + gpu03.daemon().address());
    assertThat(result.out().lines().filter(line -> line.startsWith("["))).hasSize(7);
    assertThat(result.err())
        .isEqualTo("berth: gpu99: no berthd at 127.0.0.1:1: Connection refused\n");
    assertThat(result.exitCode()).isZero();
    assertThat(berth("gpus", "--json", "--label", "room=gpu02").out().lines()).hasSize(1);
  }

  @Test
  void showsWhichServersHaveAService() {
    Result result = berth("services");

    assertThat(result.out().lines().map(line -> line.replaceAll(" +", " ")))
        .containsExactly("SERVICE ALIASES SERVERS FREE GPUS", "tf tf-2 gpu01, gpu02, gpu03 7");
    assertThat(berth("services", "--server", "gpu01").out())
        .startsWith(gpu01.daemon().address() + ": plain processes");
  }

  @Test
  void runsOnTheServerThatFitsBest() {
    Result result = run("--gpus", "2");

    assertThat(result.out()).isEqualTo("gpu01\n");
    assertThat(result.err()).startsWith("berth: gpu01 takes it (2 of 2 GPUs free)\n");
    assertThat(result.exitCode()).isZero();
    assertThat(run("--gpus", "3", "--quiet")).isEqualTo(new Result(0, "gpu02\n", ""));
    assertThat(run("--label", "room=gpu03").out()).isEqualTo("gpu03\n");
  }

  @Test
  void movesOnWhenTheBestServerFilledUpMeanwhileOrIsGone() {
    Reservation held = gpu01.reserve(Asked.reservation(60, 0));
    register("gpu00", "127.0.0.1:1", 2);

    Result result = run("--gpus", "2");
    Result json = run("--gpus", "2", "--json");

    assertThat(result.out()).isEqualTo("gpu02\n");
    assertThat(result.err().lines())
        .startsWith(
            "berth: gpu00 does not take it: no berthd at 127.0.0.1:1: Connection refused",
            "berth: gpu01 does not take it: 2 GPUs asked, 1 idle",
            "berth: gpu02 takes it (4 of 4 GPUs free)");
    assertThat(json.out().lines().filter(line -> line.contains("\"accepted\""))).hasSize(1);
    assertThat(json.out().lines()).first().asString().contains("\"server\":\"gpu02\"");
    assertThat(json.err()).isEmpty();
    gpu01.reservations().release(held.getReservationId(), RunServer.TIMEOUT);
  }

  @Test
  void waitsWhenAllAreFullAndRunsWhenGpusAreFree() throws Exception {
    Reservation first = gpu01.reserve(Asked.reservation(60, 0, 1));
    Reservation second = gpu02.reserve(Asked.reservation(60, 0, 1, 2));
    registered.get(0).free(0);
    registered.get(1).say(full(4).setQueueLength(1).build());

    Process run = start("run", "--gpus", "2", "--", "sh", "-c", "echo ran on $BERTH_SERVER");
    BufferedReader err = run.errorReader();
    assertThat(err.readLine()).isEqualTo("berth: no server has room now; queued at gpu01");
    assertThat(err.readLine()).endsWith("next in line, waiting for GPUs");
    gpu01.reservations().release(first.getReservationId(), RunServer.TIMEOUT);

    assertThat(run.inputReader().readLine()).isEqualTo("ran on gpu01");
    assertThat(run.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    assertThat(run.exitValue()).isZero();
    gpu02.reservations().release(second.getReservationId(), RunServer.TIMEOUT);
  }

  @Test
  void saysWhyNothingFits() {
    assertThat(run("--gpus", "5").err())
        .isEqualTo("berth: 5 GPUs asked, no server has more than 4 healthy ones\n");
    assertThat(run("--label", "room=none").err())
        .isEqualTo(
            "berth: no server has the label room=none; there are room=gpu01, room=gpu02,"
                + " room=gpu03\n");
    assertThat(Installed.berth("run", "--registry", "127.0.0.1:1", "--", "true").err())
        .isEqualTo(
            "berth: no registry at 127.0.0.1:1: Connection refused; start berth-registry there, or"
                + " use --server\n");
    assertThat(run("--server", "127.0.0.1:1", "--label", "room=b12").err())
        .isEqualTo("berth: --label requires a registry\n");
    assertThat(Installed.berth("servers").err())
        .isEqualTo("berth: this command requires a registry, but it is set to 'none'\n");
  }

  @Test
  void findsTheServerOfARunByItself() throws Exception {
    Reservation held = gpu01.reserve(Asked.reservation(60, 1));
    Result detached =
        berth("run", "-d", "--gpus", "2", "--", "sh", "-c", "echo made >f; echo up; sleep 60");
    String id = detached.out().strip();
    gpu01.reservations().release(held.getReservationId(), RunServer.TIMEOUT);

    assertThat(gpu02.get(id).getState()).isNotEqualTo(RunState.RUN_STATE_ENDED);
    assertThat(detached.err()).contains("gpu01 does not take it").contains("gpu02 takes it");
    assertThat(berth("runs").out()).contains("gpu01").contains(id).contains("gpu03");
    await().atMost(PATIENCE).until(() -> berth("logs", id).out(), "up\n"::equals);
    Process attached = start("attach", id);
    registered.get(1).say(full(2).addRunIds(id).build());
    assertThat(berth("cancel", id).exitCode()).isZero();
    assertThat(attached.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    assertThat(attached.exitValue()).isEqualTo(143);
    awaitEnd(gpu02, id);
    Path copy = folder.resolve("copied");
    assertThat(berth("cp", id.substring(0, 12) + ":f", copy.toString()).exitCode()).isZero();
    assertThat(copy).hasContent("made\n");
  }

  @Test
  void namesTheServersThatDidNotAnswerWhenARunIsNotFound() {
    register("gpu99", "127.0.0.1:1", 1);

    Result result = berth("logs", "run-none");

    assertThat(result.err())
        .isEqualTo(
            "berth: there is no run 'run-none'; no answer from gpu99: no berthd at 127.0.0.1:1:"
                + " Connection refused; 'berth runs --all' lists them\n");
  }

  @Test
  void reservesWhereGpusAreFreeAndFindsTheReservationAgain() {
    Reservation held = gpu01.reserve(Asked.reservation(60, 0));

    Result reserved = berth("reserve", "--gpus", "2", "--for", "1h");
    String id = reserved.out().split(":")[0];
    gpu01.reservations().release(held.getReservationId(), RunServer.TIMEOUT);

    assertThat(reserved.err()).endsWith("berth: gpu02 takes it (4 of 4 GPUs free)\n");
    assertThat(gpu02.held()).containsExactly(id);
    assertThat(berth("reservations").out()).contains("gpu01: nothing").contains(id);
    assertThat(berth("renew", id, "--for", "2h").out()).endsWith("for 2h\n");
    Result run = berth("run", "--reservation", id, "--", "sh", "-c", "echo $BERTH_SERVER");
    assertThat(run.out()).isEqualTo("gpu02\n");
    assertThat(berth("release", id).exitCode()).isZero();
    assertThat(gpu02.held()).isEmpty();
    assertThat(berth("release", id).err())
        .isEqualTo(
            "berth: there is no reservation '" + id + "'; 'berth reservations' lists them\n");
  }

  @Test
  void sendsABundleToTheServerThatTakesTheRun() throws Exception {
    Reservation held = gpu01.reserve(Asked.reservation(60, 0, 1));
    Path bundle = Files.createDirectory(folder.resolve("bundle"));
    Files.writeString(bundle.resolve("train.sh"), "cat data; echo result >out\n");
    Files.writeString(bundle.resolve("data"), "bundled\n");

    Result result =
        berth(
            "run",
            "--gpus",
            "2",
            "--bundle",
            bundle.toString(),
            "--output",
            "out",
            "--output-dir",
            folder.toString(),
            "train.sh");
    gpu01.reservations().release(held.getReservationId(), RunServer.TIMEOUT);

    assertThat(result.out()).isEqualTo("bundled\n");
    assertThat(result.err()).contains("gpu02 takes it");
    assertThat(folder.resolve("out")).hasContent("result\n");
  }

  @Test
  void aServerIsKnownByItsName() {
    assertThat(berth("server", "drain", "--server", "gpu03").out())
        .isEqualTo(gpu03.daemon().address() + ": draining, 0 reservations held\n");
    assertThat(berth("server", "undrain", "gpu03").out())
        .isEqualTo(gpu03.daemon().address() + ": serving, 0 reservations held\n");
    assertThat(berth("server", "drain", "--server", "gpu03", "gpu03").err())
        .isEqualTo("berth: server given twice: gpu03 and --server\n");
    assertThat(berth("server", "drain").err())
        .isEqualTo("berth: no server given: use --server HOST[:PORT] or --server NAME\n");
  }

  @Test
  void aServerThatRegistersItselfIsFoundUntilItStops() throws Exception {
    Path own = Files.createDirectory(folder.resolve("gpu04"));
    try (Daemon gpu04 =
        Daemon.start(
            own,
            "berthd",
            "--name",
            "gpu04",
            "--registry",
            registry.address(),
            "--label",
            "room=own",
            "--runtime",
            "process",
            "--allow-root",
            "--simulate-gpus",
            "2")) {
      String[] mine = {"--label", "room=own"};
      await().atMost(PATIENCE).until(() -> berth("servers", mine).exitCode() == 0);

      assertThat(berth("servers", mine).out()).contains("gpu04").contains("2/2 free");
      assertThat(run("--gpus", "2", "--label", "room=own").out()).isEqualTo("gpu04\n");

      gpu04.stop();
      assertThat(berth("servers", mine).exitCode()).isEqualTo(125);
    }
  }

  @Test
  void watchingGoesOnOverARestartOfTheRegistry() throws Exception {
    Process watch = start("servers", "--watch", "--json");
    Process gpus = start("gpus", "--watch", "--json");
    BufferedReader lines = watch.inputReader();
    assertThat(lines.readLine()).contains("gpu01").contains("gpu02").contains("gpu03");
    BufferedReader samples = gpus.inputReader();
    samples.readLine();

    RegisteredServer late =
        register("late", gpu01.daemon().address().replace("127.0.0.1", "127.0.0.2"), 0);
    assertThat(lines.readLine()).contains("\"name\":\"late\"").doesNotContain("gpu02");
    registered.remove(late);
    late.close();
    assertThat(lines.readLine()).contains("\"removed\":[\"late\"]");

    registry.kill();
    registry = startRegistry(registry.address());

    // It knows nobody at first, or some already; in the end all three are back.
    StringBuilder told = new StringBuilder();
    while (!List.of("gpu01", "gpu02", "gpu03").stream()
        .allMatch(name -> told.indexOf("\"name\":\"" + name + "\"") >= 0)) {
      told.append(lines.readLine());
    }
    assertThat(watch.isAlive()).isTrue();
    assertThat(gpus.isAlive()).isTrue();
    assertThat(samples.readLine()).contains("gpu0");
  }

  private RegisteredServer register(String name, String address, int gpus) {
    RegisteredServer server =
        new RegisteredServer(
            registry.address(),
            address,
            ServerInfo.newBuilder()
                .setName(name)
                .setCpus(8)
                .setMemoryBytes(64L << 30)
                .addServices(Service.newBuilder().setName("tf").addAliases("tf-2"))
                .putAllLabels(Map.of("room", name)),
            gpus);
    registered.add(server);
    return server;
  }

  private static ServerStatus.Builder full(int gpus) {
    ServerStatus.Builder status = ServerStatus.newBuilder().setCanRun(true);
    for (int i = 0; i < gpus; i++) {
      status.addGpusBuilder().setIndex(i).setState(berth.v1.GpuState.GPU_STATE_RESERVED);
    }
    return status;
  }

  private static void awaitEnd(RunServer server, String id) {
    await()
        .atMost(PATIENCE)
        .until(() -> server.get(id), run -> run.getState() == RunState.RUN_STATE_ENDED);
  }

  private static Daemon startRegistry(String address) {
    return Daemon.start(
        folder, "berth-registry", "--listen", address, "--lease", "2s", "--discovery-port", "0");
  }

  private static RunServer server(String name, int gpus) throws IOException {
    List<String> options = new ArrayList<>(List.of("--name", name));
    options.addAll(List.of(RUNTIME));
    options.add("" + gpus);
    return new RunServer(
        Files.createDirectory(folder.resolve(name)), options.toArray(String[]::new));
  }

  private static Result run(String... options) {
    List<String> words = new ArrayList<>(List.of(options));
    words.addAll(List.of("--", "sh", "-c", "echo $BERTH_SERVER"));
    return berth("run", words.toArray(String[]::new));
  }

  private static Result berth(String command, String... args) {
    return Installed.berth(words(command, args));
  }

  private static String[] words(String command, String... args) {
    List<String> words = new ArrayList<>(List.of(command));
    if (command.equals("server")) {
      words.add(args[0]);
      args = List.of(args).subList(1, args.length).toArray(String[]::new);
    }
    words.addAll(List.of("--registry", registry.address()));
    words.addAll(List.of(args));
    return words.toArray(String[]::new);
  }

  private Process start(String command, String... args) throws IOException {
    List<String> words = new ArrayList<>(List.of(Installed.command("berth")));
    words.addAll(List.of(words(command, args)));
    Process process = new ProcessBuilder(words).start();
    processes.add(process);
    return process;
  }
}
