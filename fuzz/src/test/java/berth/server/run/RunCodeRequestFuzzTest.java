package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.command.Vitals;
import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.fuzz.ShownText;
import berth.server.state.DurableFiles;
import berth.v1.Entrypoint;
import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.IdleLimit;
import berth.v1.Limits;
import berth.v1.Mount;
import berth.v1.Network;
import berth.v1.Owner;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import berth.v1.UserId;
import berth.v1.WaitTime;
import berth.v1.WarningSignal;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class RunCodeRequestFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());

  static Stream<byte[]> seeds() {
    return Stream.of(
            RunCodeRequest.newBuilder()
                .setImage("a:1")
                .setSource(
                    Source.newBuilder()
                        .setFileName("train.py")
                        .setContent(ByteString.copyFromUtf8("#!/usr/bin/env python3\nprint(1)\n")))
                .putFiles("conf/a.json", ByteString.copyFromUtf8("{}"))
                .addCommand("--epochs")
                .putEnv("A", "1")
                .setWorkingDir("sub")
                .addOutputs("model/*.h5")
                .setGpus(GpuRequest.newBuilder().setCount(2).setModel("A100"))
                .setPortCount(2)
                .setWait(WaitTime.newBuilder().setAtMost(seconds(600)))
                .setOwner(Owner.newBuilder().setUser("anna").setHost("desk"))
                .setName("digits")
                .setRequestId("r1"),
            RunCodeRequest.newBuilder()
                .setService("tensorflow")
                .setBundle("0".repeat(64))
                .addCommand("python3")
                .setEntrypoint(Entrypoint.newBuilder().addWords("tini").addWords("--"))
                .setLimits(
                    Limits.newBuilder()
                        .setTime(seconds(3600))
                        .setStopGrace(seconds(5))
                        .setMemoryBytes(1 << 30)
                        .setCpus(1.5)
                        .setProcesses(100)
                        .setSharedMemoryBytes(1 << 20)
                        .setWarning(
                            WarningSignal.newBuilder().setSignal("USR1").setBefore(seconds(60)))
                        .setIdle(IdleLimit.newBuilder().setBelowPercent(5).setTime(seconds(1800))))
                .setGpus(
                    GpuRequest.newBuilder().setExactly(GpuSet.newBuilder().addIds("0").addIds("1")))
                .setNetwork(Network.NETWORK_HOST)
                .setUser(UserId.newBuilder().setUid(1000).setGid(1000))
                .addMounts(Mount.newBuilder().setSource("/data").setTarget("/in").setReadOnly(true))
                .setWait(WaitTime.newBuilder().setForever(true))
                .setDetached(true),
            RunCodeRequest.newBuilder().setImage("a").setReservationId("r-1").addCommand("true"))
        .map(builder -> builder.build())
        .map(MessageLite::toByteArray);
  }

  private static Duration seconds(long seconds) {
    return Duration.newBuilder().setSeconds(seconds).build();
  }

  @MethodSource("seeds")
  @FuzzTest
  void isPlannedOrRefusedWithASentence(byte[] data) throws Exception {
    RunCodeRequest request;
    try {
      request = RunCodeRequest.parseFrom(data);
    } catch (InvalidProtocolBufferException e) {
      return;
    }
    Optional<RunSpec> accepted = Inputs.accepted(() -> RunMessages.spec(request));
    if (accepted.isPresent()) {
      checkTimes(accepted.get());
      ShownText.check("name", accepted.get().name());
      ShownText.check("owner", accepted.get().owner().toString());
      Path scratch = SCRATCH.empty();
      Files.writeString(scratch.resolve("secret"), "secret");
      Inputs.accepted(() -> launch(scratch, accepted.get()));
      assertThat(scratch.resolve("secret")).hasContent("secret");
      try (var left = Files.list(scratch)) {
        assertThat(left.map(path -> path.getFileName().toString()).toList())
            .isSubsetOf("secret", "bundles", "run");
      }
    }
  }

  /** Timers count nanoseconds. */
  private static void checkTimes(RunSpec spec) {
    spec.waitAtMost().ifPresent(java.time.Duration::toNanos);
    spec.limits().time().ifPresent(java.time.Duration::toNanos);
    spec.limits().warning().ifPresent(warning -> warning.before().toNanos());
    spec.limits().idle().ifPresent(idle -> idle.time().toNanos());
    spec.limits().stopGrace().toNanos();
  }

  private static Launch launch(Path scratch, RunSpec spec) throws IOException {
    LaunchPlanner planner =
        new LaunchPlanner(
            "gpu1",
            Services.none(),
            MountRules.parse(List.of(scratch.toString()), new ClosedFolders()),
            new UidRange(2_100_000_000, 2_100_009_999),
            new Bundles(
                scratch.resolve("bundles"),
                new Bundles.Limits(1 << 20, 1 << 20, 1 << 30),
                new StateDisk("gpu1", scratch, Optional.of(0L)),
                DISK));
    RunFolder folder = new RunFolder(scratch.resolve("run"));
    Launch launch =
        planner.plan("r-1", folder, spec, planner.binds(spec.mounts()), Optional.empty());
    if (spec.user().isEmpty()) {
      folder.create();
      if (spec.code() instanceof RunSpec.Code.Bundle bundle) {
        planner.bringBundle(folder, bundle);
      }
      planner.bringFiles(folder, spec);
    }
    return launch;
  }
}
