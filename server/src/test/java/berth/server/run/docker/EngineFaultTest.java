package berth.server.run.docker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.run.Launch;
import berth.server.run.Runs;
import berth.server.run.mount.RunMounts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Engines that answer, and do not do what they are asked to. */
class EngineFaultTest {
  private static final Duration SOON = Duration.ofSeconds(60);
  private static final EngineClient.Patience PATIENCE =
      new EngineClient.Patience(SOON, SOON, Duration.ofMillis(10), Duration.ofMillis(10));
  private static final String IMAGE = "GET /images/";
  private static final String PULL = "POST /images/create";
  private static final String CREATE = "POST /containers/create";
  private static final String START = "POST /containers/berth-run-1/start";
  private static final String INSPECT = "GET /containers/berth-run-1/json";

  @TempDir private Path folder;
  private FakeEngine engine;
  private DockerRuntime runtime;

  @BeforeEach
  void open() throws IOException {
    engine = new FakeEngine(folder);
    engine.answer(IMAGE, 200, "{\"Id\":\"sha256:1\",\"Config\":{\"Cmd\":[\"true\"]}}");
    engine.answer(CREATE, 201, "{\"Id\":\"c1\"}");
    engine.answer(START, 204, "");
    engine.answer(INSPECT, 200, "{\"Id\":\"c1\",\"State\":{\"Running\":true,\"Pid\":0}}");
    runtime = new DockerRuntime(settings(), PATIENCE);
    await().atMost(SOON).until(() -> runtime.problem().isEmpty());
  }

  @AfterEach
  void close() {
    runtime.close();
    engine.close();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "error creating overlay mount to /var/lib/docker/x: no space left on device",
        "could not select device driver \\\"nvidia\\\" with capabilities: [[gpu]]",
        "OCI runtime create failed: error running prestart hook #0: nvidia-container-cli:"
            + " initialization error: nvml error: driver/library version mismatch: unknown",
        "something that nobody has heard before"
      })
  void whatTheServerCannotDoNowIsNoFaultOfTheRun(String words) {
    engine.answer(CREATE, 500, message(words));
    assertFails(this::create, Reason.UNAVAILABLE, "cannot start the container: ");
    engine.answer(START, 500, message(words));
    assertFails(() -> runtime.start(launch()), Reason.UNAVAILABLE, "cannot start the container");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "OCI runtime create failed: exec: \\\"/nosuch\\\": stat /nosuch: no such file or directory",
        "OCI runtime create failed: exec: \\\"nosuch\\\": executable file not found in $PATH",
        "OCI runtime create failed: exec: \\\"/etc\\\": permission denied: unknown",
        "OCI runtime create failed: error mounting \\\"/etc\\\" to rootfs at \\\"/bin/sh\\\": not a"
            + " directory",
        "lstat /var/lib/docker/overlay2/x/merged/bin/sh/x: not a directory",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4"
      })
  void whatNoEngineCouldStartIsTheRunsOwnFaultWhateverTheStatus(String words) {
    for (int status : List.of(400, 500)) {
      engine.answer(START, status, message(words));
      assertFails(() -> runtime.start(launch()), Reason.CONFLICT, "cannot start the container");
    }
  }

  @Test
  void aRefusalOfTheEngineIsTheRunsOwnFaultUnlessAHookOfTheServerFailed() {
    engine.answer(CREATE, 400, message("invalid mount config for type bind"));
    assertFails(this::create, Reason.CONFLICT, "cannot start the container: ");
    engine.answer(
        START,
        400,
        message(
            "error running createRuntime hook #0: fork/exec /usr/bin/nvidia-ctk: no such file or"
                + " directory"));
    assertFails(() -> runtime.start(launch()), Reason.UNAVAILABLE, "cannot start the container");
  }

  @Test
  void aContainerWhoseStartFailedIsStartedWhenTheEngineCan() throws Exception {
    create();
    engine.answer(START, 500, message("driver/library version mismatch"));
    assertFails(() -> runtime.start(launch()), Reason.UNAVAILABLE, "cannot start the container");

    engine.answer(START, 204, "");
    engine.answer(CREATE, 409, message("the name is in use"));
    create();
    assertThat(runtime.start(launch()).containerId()).isEqualTo("c1");

    assertThat(engine.timesAnswered(START)).isEqualTo(2);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "Get \\\"https://registry-1.docker.io/v2/\\\": dial tcp: lookup registry-1.docker.io on"
            + " 10.0.0.53:53: dial udp 10.0.0.53:53: connect: network is unreachable",
        "Get \\\"http://127.0.0.1:5000/v2/\\\": dial tcp 127.0.0.1:5000: connect: connection"
            + " refused",
        "Get \\\"https://r/v2/\\\": net/http: request canceled (Client.Timeout exceeded)",
        "received unexpected HTTP status: 503 Service Unavailable",
        "toomanyrequests: You have reached your pull rate limit",
        "failed to register layer: write /usr/lib/x: no space left on device"
      })
  void aRegistryThatIsAwayIsNoFaultOfTheRun(String words) {
    engine.answer(IMAGE, 404, message("no such image"));
    engine.answer(PULL, 500, message(words));
    assertFails(this::create, Reason.UNAVAILABLE, "image busybox:1 is not on this server and");
    engine.answer(PULL, 200, "{\"errorDetail\":{\"message\":\"" + words + "\"},\"error\":\"x\"}");
    assertFails(this::create, Reason.UNAVAILABLE, "image busybox:1 is not on this server and");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "manifest for busybox:1 not found: manifest unknown: manifest unknown",
        "pull access denied for busybox, repository does not exist or may require 'docker login'",
        "no matching manifest for linux/arm64/v8 in the manifest list entries",
        "Get \\\"https://nosuch/v2/\\\": dial tcp: lookup nosuch on 10.0.0.53:53: no such host"
      })
  void anImageThatIsNowhereIsNotFound(String words) {
    engine.answer(IMAGE, 404, message("no such image"));
    for (int status : List.of(404, 500)) {
      engine.answer(PULL, status, message(words));
      assertFails(this::create, Reason.NOT_FOUND, "image busybox:1 is not on this server and");
    }
    engine.answer(PULL, 200, "{\"errorDetail\":{\"message\":\"" + words + "\"},\"error\":\"x\"}");
    assertFails(this::create, Reason.NOT_FOUND, "image busybox:1 is not on this server and");
  }

  @Test
  void whoComesBeforeTheEngineDoesNotTakeItForOneWithoutGpus() throws Exception {
    engine.answer("GET /info", 503, message("starting"));
    try (DockerRuntime early =
        new DockerRuntime(
            new DockerRuntime.Settings(
                engine.host(), "gpu01", folder.resolve("state"), true, Duration.ofHours(1)),
            PATIENCE)) {
      assertFails(
          () -> early.create(launch(), new Launches.NoProgress()),
          Reason.UNAVAILABLE,
          "no Docker engine answers at");
      engine.answer("GET /info", 200, "{\"ServerVersion\":\"1.0\"}");
      assertThat(early.create(launch(), new Launches.NoProgress()).mark()).isEqualTo("c1");
    }
  }

  /** What is mounted for a start is of no use after it. */
  @Test
  void aRunThatHasStartedDoesNotFailBecauseSomethingCannotBeUnmounted() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    for (String run : List.of("run-1", "run-2")) {
      Files.createDirectories(Runs.folder(folder.resolve("state"), run).mounts());
    }
    DockerRuntime failing =
        new DockerRuntime(
            settings(),
            new EngineClient(engine.host(), PATIENCE),
            new RunMounts(
                () -> {
                  asked.incrementAndGet();
                  throw new BerthException(Reason.CONFLICT, "no");
                }));
    try {
      assertThat(asked).as("each of those that were left").hasValue(2);
      assertThat(failing.start(launch()).containerId()).isEqualTo("c1");
      assertThat(asked).hasValue(3);
      engine.answer("DELETE /containers/berth-run-1", 204, "");
      assertFails(() -> failing.remove("run-1"), Reason.CONFLICT, "no");
      assertThat(asked).hasValue(4);
    } finally {
      failing.close();
    }
  }

  private DockerRuntime.Settings settings() {
    return new DockerRuntime.Settings(
        engine.host(), "gpu01", folder.resolve("state"), true, Duration.ofHours(1));
  }

  private void create() throws InterruptedException {
    runtime.create(launch(), new Launches.NoProgress());
  }

  private static void assertFails(ThrowingCallable call, Reason reason, String beginning) {
    assertThatThrownBy(call)
        .hasMessageStartingWith(beginning)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).as(e.getMessage()).isEqualTo(reason));
  }

  private static String message(String words) {
    return "{\"message\":\"" + words + "\"}";
  }

  private Launch launch() {
    return Launches.of(folder);
  }
}
