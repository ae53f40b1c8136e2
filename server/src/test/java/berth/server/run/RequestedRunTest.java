package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.GpuRequest;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.Mount;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import berth.v1.UserId;
import berth.v1.WarningSignal;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import java.util.Collections;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What is refused before anything happens. */
class RequestedRunTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "NV_GPU",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "BERTH_RUN_ID"
      })
  void variablesThatTellOfGpusAreReserved(String name) {
    refused(
        request -> request.putEnv(name, "all"),
        "the variable " + name + " is set by Berth from the reserved GPUs; leave it out");
  }

  private static final ByteString SMALL = ByteString.copyFromUtf8("x");

  static Stream<Arguments> mistakes() {
    return Stream.of(
        mistake(r -> r.putEnv("a b", "c"), "'a b' is not a valid variable name"),
        mistake(r -> r.putEnv("A", "\0"), "the variable A contains a NUL character"),
        mistake(r -> r.addCommand("\0"), "the command contains a NUL character"),
        mistake(
            r -> r.setSource(Source.newBuilder().setFileName("../x")),
            "'../x' is not the name of a file without folders"),
        mistake(
            r -> r.setSource(Source.newBuilder().setFileName("é".repeat(128))),
            "'" + "é".repeat(128) + "' is not the name of a file without folders"),
        mistake(
            r ->
                r.setSource(
                    Source.newBuilder()
                        .setFileName("x")
                        .setContent(ByteString.copyFrom(new byte[(8 << 20) + 1]))),
            "x has 8388609 bytes, 8 MiB are allowed; send it as a bundle"),
        mistake(
            r -> r.setWorkingDir("/a/../b"),
            "working folder '/a/../b' is not an absolute path without '..'"),
        mistake(
            r -> r.setWorkingDir("/proc/self/fd/8"),
            "the working folder must not be in /proc, /sys or /dev: /proc/self/fd/8"),
        mistake(
            r -> r.setWorkingDir("//./sys"),
            "the working folder must not be in /proc, /sys or /dev: //./sys"),
        mistake(
            r -> r.setWorkingDir("/dev/fd/8"),
            "the working folder must not be in /proc, /sys or /dev: /dev/fd/8"),
        mistake(
            r -> r.setUser(UserId.newBuilder().setUid(-1).setGid(5)),
            "user 4294967295:5 asked; user and group must be from 0 to 2147483647"),
        mistake(
            r -> r.setUser(UserId.newBuilder().setUid(5).setGid(Integer.MIN_VALUE)),
            "user 5:2147483648 asked; user and group must be from 0 to 2147483647"),
        mistake(r -> r.addMounts(mount("//proc")), "nothing can be mounted at /proc"),
        mistake(r -> r.addMounts(mount("/./berth/mark")), "nothing can be mounted at /berth/mark"),
        mistake(r -> r.addMounts(mount("//")), "nothing can be mounted at /"),
        mistake(
            r -> r.addMounts(mount("/./work//")),
            "nothing can be mounted at /work, where the code is"),
        mistake(r -> r.addOutputs("../x"), "output '../x' is not a path below /work"),
        mistake(r -> r.addOutputs("/etc"), "output '/etc' is not a path below /work"),
        file("", "file '' is not a path below /work"),
        file("/etc/passwd", "file '/etc/passwd' is not a path below /work"),
        file("../x", "file '../x' is not a path below /work"),
        file("a/../../x", "file 'a/../../x' is not a path below /work"),
        file("a/./x", "file 'a/./x' is not a path below /work"),
        file("a//x", "file 'a//x' is not a path below /work"),
        file("a/", "file 'a/' is not a path below /work"),
        file(".", "file '.' is not a path below /work"),
        file("a\nb", "file 'a\nb' is not a path below /work"),
        file("a\0b", "file 'a\0b' is not a path below /work"),
        file("x".repeat(256), "file '" + "x".repeat(256) + "' is not a path below /work"),
        file("a/".repeat(100) + "b", "file '" + "a/".repeat(100) + "b' is not a path below /work"),
        mistake(
            r -> r.putFiles("a", SMALL).putFiles("a/b", SMALL),
            "file 'a/b' lies below 'a', which is a file"),
        mistake(
            r -> r.setSource(Source.newBuilder().setFileName("x")).putFiles("x/a", SMALL),
            "file 'x/a' lies below 'x', which is a file"),
        mistake(
            r -> r.setSource(Source.newBuilder().setFileName("x")).putFiles("x", SMALL),
            "'x' is the source file, and cannot be put beside it"),
        mistake(
            r -> IntStream.range(0, 65).forEach(i -> r.putFiles("f" + i, SMALL)),
            "65 files of 65 bytes beside the code, 64 of 4 MiB are allowed; send a" + " bundle"),
        mistake(
            r -> r.putFiles("a", SMALL).putFiles("b", ByteString.copyFrom(new byte[4 << 20])),
            "2 files of 4194305 bytes beside the code, 64 of 4 MiB are allowed; send"
                + " a bundle"),
        mistake(
            r -> r.addAllOutputs(Collections.nCopies(1001, "x")),
            "1001 outputs asked, 1000 are allowed"),
        mistake(
            r -> r.addAllCommand(Collections.nCopies(65_537, "")),
            "65537 words of the command asked, 65536 are allowed"),
        mistake(
            r -> IntStream.range(0, 10_001).forEach(i -> r.putEnv("V" + i, "")),
            "10001 variables asked, 10000 are allowed"),
        mistake(
            r ->
                r.setSource(
                    Source.newBuilder()
                        .setFileName("x")
                        .addAllInterpreter(Collections.nCopies(17, ""))),
            "17 words of the interpreter asked, 16 are allowed"),
        mistake(r -> r.setImage(""), "an image without a name"),
        mistake(
            r -> r.setReservationId("r-1").setPortCount(2),
            "a run in a reservation uses its ports and cannot ask for others"),
        mistake(
            r -> r.addMounts(Mount.newBuilder().setSource("data")),
            "mount 'data' is not an absolute path without '..'"),
        mistake(
            r -> r.addMounts(Mount.newBuilder().setSource("/data").setTarget("/proc/x")),
            "nothing can be mounted at /proc/x"),
        mistake(
            r -> r.addMounts(Mount.newBuilder().setSource("/data").setTarget("/work/")),
            "nothing can be mounted at /work, where the code is"),
        mistake(r -> r.setName("x".repeat(201)), "the name has 201 characters, 200 are allowed"),
        limit(l -> l.setTime(seconds(-1)), "a time limit of -1.0 s asked; it must be above 0"),
        limit(l -> l.setMemoryBytes(-5), "-5 bytes of memory asked; the least is 6 MiB"),
        limit(l -> l.setCpus(-1), "-1.0 CPUs asked; ask for 0.01 or more"),
        limit(l -> l.setCpus(Double.NaN), "NaN CPUs asked; ask for 0.01 or more"),
        limit(l -> l.setProcesses(-2), "-2 processes asked; ask for 1 or more"),
        limit(
            l -> l.setSharedMemoryBytes(-1), "-1 bytes of shared memory asked; ask for 1 or more"),
        limit(
            l -> l.setStopGrace(seconds(-1)),
            "a grace of -1 s asked; it must be between 0 and an hour"),
        limit(
            l -> l.setWarning(WarningSignal.newBuilder().setSignal("USR1").setBefore(seconds(1))),
            "a signal before the time limit requires a time limit"),
        limit(
            l -> l.setWarning(WarningSignal.newBuilder().setSignal("KILL").setBefore(seconds(1))),
            "signal 'KILL' not supported before the time limit; use for example USR1, INT or TERM"),
        limit(l -> l.setIdle(idle(0, 60)), "an idle limit of 0 % asked; it must be from 1 to 100"),
        limit(
            l -> l.setIdle(idle(101, 60)),
            "an idle limit of 101 % asked; it must be from 1 to 100"),
        limit(
            l -> l.setIdle(idle(-1, 60)),
            "an idle limit of 4294967295 % asked; it must be from 1 to 100"),
        limit(
            l -> l.setIdle(IdleLimit.newBuilder().setBelowPercent(5)),
            "an idle limit of 0 s asked; it must be a second or more"),
        limit(
            l -> l.setIdle(idle(5, 400_000_000)),
            "an idle limit of 4629 days asked; at most ten years"),
        limit(l -> l.setIdle(idle(5, 60)), "an idle limit requires GPUs"));
  }

  @ParameterizedTest
  @MethodSource("mistakes")
  void mistakesAreNamedInOneSentence(Consumer<RunCodeRequest.Builder> change, String message) {
    refused(change, message);
  }

  @Test
  void aWorkingFolderMayBeRelativeToTheCode() {
    assertThat(spec(request -> request.setWorkingDir("src")).workingDir()).isEqualTo("/work/src");
    assertThat(spec(request -> {}).workingDir()).isEqualTo("/work");
  }

  @Test
  void asMuchAsIsAllowedMayBePutBesideTheCode() {
    RequestedRun spec =
        spec(
            request -> {
              IntStream.range(0, 63).forEach(i -> request.putFiles("conf/.f " + i, SMALL));
              request.putFiles("big", ByteString.copyFrom(new byte[(4 << 20) - 63]));
            });
    assertThat(spec.files()).hasSize(64);
    assertThat(spec.files().get("conf/.f 7")).containsExactly('x');
  }

  @Test
  void aSignalMayBeWrittenWithOrWithoutItsPrefix() {
    RequestedRun spec =
        spec(
            request ->
                request.setLimits(
                    Limits.newBuilder()
                        .setTime(seconds(60))
                        .setWarning(
                            WarningSignal.newBuilder()
                                .setSignal("sigusr1")
                                .setBefore(seconds(10)))));
    assertThat(spec.limits().warning().orElseThrow().signal()).isEqualTo("USR1");
  }

  @Test
  void idleGpusMayBeThoseOfTheRunOrOfItsReservation() throws Exception {
    Limits limits = Limits.newBuilder().setIdle(idle(100, 1)).build();
    RequestedRun own =
        spec(request -> request.setGpus(GpuRequest.newBuilder().setCount(1)).setLimits(limits));
    RequestedRun reserved = spec(request -> request.setReservationId("r-1").setLimits(limits));

    assertThat(own.limits().idle())
        .contains(new berth.server.run.Limits.Idle(100, java.time.Duration.ofSeconds(1)));
    assertThat(reserved.limits()).isEqualTo(own.limits());
  }

  @Test
  void whatIsStoredIsReadAgainAsItWas() throws Exception {
    RunCodeRequest request =
        RunCodeRequest.newBuilder()
            .setGpus(GpuRequest.newBuilder().setCount(1))
            .setLimits(Limits.newBuilder().setIdle(idle(5, 1800)))
            .setImage("busybox:1")
            .addCommand("true")
            .putEnv("A", "b")
            .setDetached(true)
            .build();
    assertThat(RunMessages.spec(RunCodeRequest.parseFrom(request.toByteArray())))
        .isEqualTo(RunMessages.spec(request));
  }

  private static Arguments mistake(Consumer<RunCodeRequest.Builder> change, String message) {
    return Arguments.of(change, message);
  }

  private static Mount mount(String target) {
    return Mount.newBuilder().setSource("/data").setTarget(target).build();
  }

  private static Arguments file(String name, String message) {
    return mistake(request -> request.putFiles(name, SMALL), message);
  }

  private static Arguments limit(Consumer<Limits.Builder> change, String message) {
    return mistake(
        request -> {
          Limits.Builder limits = Limits.newBuilder();
          change.accept(limits);
          request.setLimits(limits);
        },
        message);
  }

  private static Duration seconds(long seconds) {
    return Duration.newBuilder().setSeconds(seconds).build();
  }

  private static IdleLimit idle(int percent, long seconds) {
    return IdleLimit.newBuilder().setBelowPercent(percent).setTime(seconds(seconds)).build();
  }

  private static RequestedRun spec(Consumer<RunCodeRequest.Builder> change) {
    RunCodeRequest.Builder request = RunCodeRequest.newBuilder().setImage("busybox:1");
    change.accept(request);
    return RunMessages.spec(request.build());
  }

  private static void refused(Consumer<RunCodeRequest.Builder> change, String message) {
    assertThatThrownBy(() -> spec(change))
        .hasMessage(message)
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.reason()).isEqualTo(Reason.INVALID));
  }
}
