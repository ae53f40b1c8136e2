package berth.server.run.docker;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.server.reservation.Reservation.Owner;
import berth.server.run.Launch;
import berth.server.run.Limits;
import berth.server.run.RequestedRun.Network;
import berth.server.run.RunEngine;
import berth.server.run.RunFolder;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.github.dockerjava.core.DefaultDockerClientConfig;
import com.github.dockerjava.core.DockerClientImpl;
import com.github.dockerjava.transport.DockerHttpClient;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What an engine answers. The first byte of the input says what it is asked; the lines that follow
 * are its answers, one after the other, each with a character for its status before it. After
 * those, it has found nothing.
 */
class EngineAnswerFuzzTest {
  private static final String KNOWN = "0{\"ServerVersion\":\"24.0\"}";
  private static final Scratch SCRATCH = new Scratch();
  private static final FakeEngine ENGINE = new FakeEngine();
  private static final EngineClient CLIENT =
      new EngineClient(
          "tcp://127.0.0.1:1",
          new EngineClient.Patience(
              Duration.ofSeconds(5), Duration.ofSeconds(5), Duration.ZERO, Duration.ZERO),
          DockerClientImpl.getInstance(
              DefaultDockerClientConfig.createDefaultConfigBuilder()
                  .withDockerHost("tcp://127.0.0.1:1")
                  .withDockerTlsVerify(false)
                  .build(),
              ENGINE));

  static Stream<byte[]> seeds() {
    return Stream.of(
            "a0{\"ServerVersion\":\"24.0\",\"Runtimes\":{\"nvidia\":{}},"
                + "\"CDISpecDirs\":[\"/etc/cdi\"]}\n0OK",
            "b0{\"Id\":\"sha256:1\",\"Config\":{\"Entrypoint\":[\"sh\"],\"Cmd\":[\"-c\"]}}\n"
                + "0{\"Id\":\"c1\",\"Warnings\":[]}",
            "b4{\"message\":\"No such image\"}\n"
                + "0{\"status\":\"Pulling from a\",\"id\":\"1\"}"
                + "{\"status\":\"Downloading\",\"id\":\"l1\",\"progressDetail\":"
                + "{\"current\":1,\"total\":2}}{\"status\":\"Pull complete\",\"id\":\"l1\"}\n"
                + "0{\"Id\":\"sha256:1\"}\n9{\"message\":\"Conflict\"}\n"
                + "0{\"Id\":\"c1\",\"State\":{\"Pid\":1}}",
            "b4\n0{\"errorDetail\":{\"message\":\"denied\"},\"error\":\"denied\"}",
            "c1\n0{\"Id\":\"c1\",\"State\":{\"Pid\":12,\"Running\":true}}",
            "c3\n0{\"Id\":\"c1\"}",
            "d0{\"StatusCode\":137}\n0{\"Id\":\"c1\",\"State\":{\"Running\":false,\"ExitCode\":137,"
                + "\"OOMKilled\":false,\"FinishedAt\":\"2024-01-01T00:00:00.5Z\"}}\n"
                + "0{\"Type\":\"container\",\"Action\":\"kill\",\"id\":\"c1\"}",
            "d5{\"message\":\"server error\"}\n0{\"StatusCode\":0,\"Error\":null}\n0{\"State\":{}}",
            "e1",
            "f0{\"State\":{\"Pid\":1}}",
            "g5{\"message\":\"busy\"}",
            "h0[{\"Id\":\"c1\",\"Labels\":{\"berth.run\":\"r-1\","
                + "\"berth.state\":\"/x\",\"berth.server\":\"gpu1\"}},{\"Id\":\"c2\","
                + "\"Labels\":null}]")
        .map(text -> text.getBytes(StandardCharsets.UTF_8));
  }

  @MethodSource("seeds")
  @FuzzTest
  void isUnderstoodOrToldInASentence(byte[] data) throws Exception {
    if (data.length == 0) {
      return;
    }
    Path scratch = SCRATCH.empty();
    String answers = new String(data, 1, data.length - 1, StandardCharsets.UTF_8);
    // Whoever asks for anything else knows already what engine it is.
    ENGINE.answer(data[0] == 'a' ? answers : KNOWN + "\n" + answers);
    RunEngine runtime = runtime(scratch);
    Launch launch = launch(scratch);
    Inputs.accepted(
        () ->
            switch (data[0]) {
              case 'a' -> runtime.problem();
              case 'b' -> runtime.create(launch, new Impatient());
              case 'c' -> runtime.start(launch);
              case 'd' -> runtime.await("r-1");
              case 'e' -> {
                runtime.signal("r-1", "TERM");
                yield "";
              }
              case 'f' -> runtime.peakMemory("r-1");
              case 'g' -> {
                runtime.remove("r-1");
                yield "";
              }
              default -> {
                runtime.reap(run -> false);
                yield "";
              }
            });
  }

  private static RunEngine runtime(Path scratch) {
    return new DockerRuntime(
        new DockerRuntime.Settings(
            "tcp://127.0.0.1:1", "gpu1", scratch.resolve("state"), true, Duration.ZERO),
        CLIENT);
  }

  private static Launch launch(Path scratch) {
    return new Launch(
        "r-1",
        new RunFolder(scratch.resolve("run")),
        Optional.of("a"),
        Optional.empty(),
        Optional.empty(),
        List.of("true"),
        Map.of(),
        "/work",
        Optional.empty(),
        Network.OWN,
        List.of(),
        new Limits(
            Optional.empty(),
            Optional.empty(),
            Duration.ofSeconds(1),
            OptionalLong.empty(),
            OptionalDouble.empty(),
            OptionalLong.empty(),
            OptionalLong.empty(),
            Optional.empty()),
        Map.of(),
        List.of(),
        new Owner("anna", "desk"),
        "digits");
  }

  private static final class Impatient implements RunEngine.Progress {
    @Override
    public void pulling(RunEngine.Pull pull) {}

    @Override
    public boolean wanted() {
      return false;
    }
  }

  /** An engine without a network. */
  private static final class FakeEngine implements DockerHttpClient {
    private final Deque<String> answers = new ArrayDeque<>();

    synchronized void answer(String lines) {
      answers.clear();
      // split, not lines: an empty answer is one too.
      answers.addAll(List.of(lines.split("\n", -1)));
    }

    @Override
    public synchronized Response execute(Request request) {
      String answer = answers.isEmpty() ? "4{\"message\":\"not found\"}" : answers.remove();
      char kind = answer.isEmpty() ? '0' : answer.charAt(0);
      int status =
          switch (kind) {
            case '1' -> 204;
            case '2' -> 400;
            case '3' -> 304;
            case '4' -> 404;
            case '5' -> 500;
            case '9' -> 409;
            default -> 200;
          };
      return new Answer(status, answer.isEmpty() ? "" : answer.substring(1));
    }

    @Override
    public void close() {}
  }

  private record Answer(int getStatusCode, String text) implements DockerHttpClient.Response {
    @Override
    public Map<String, List<String>> getHeaders() {
      return Map.of("content-type", List.of("application/json"));
    }

    @Override
    public InputStream getBody() {
      return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {}
  }
}
