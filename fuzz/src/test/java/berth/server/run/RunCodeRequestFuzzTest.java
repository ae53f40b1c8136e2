package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.fuzz.SeedTars;
import berth.fuzz.ShownText;
import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
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
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Requests to a server with a service, a bundle and two folders that may be mounted: {@code /data},
 * and {@code /data/set} below it to read. Where these are on this machine is not for inputs to
 * know.
 */
class RunCodeRequestFuzzTest {
  private static final Scratch SCRATCH = new Scratch();
  private static final String DATA = "/data";
  private static final byte[] BUNDLE = bundle();
  private static final String DIGEST = digest(BUNDLE);
  private static final Services SERVICES = services();
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
                .setBundle(DIGEST)
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
                .addMounts(Mount.newBuilder().setSource(DATA).setTarget("/in").setReadOnly(true))
                .addMounts(Mount.newBuilder().setSource(DATA + "/mine").setTarget("/out"))
                .setWait(WaitTime.newBuilder().setForever(true))
                .setDetached(true),
            RunCodeRequest.newBuilder()
                .setService("TF")
                .setSource(
                    Source.newBuilder()
                        .setFileName("train.py")
                        .setContent(ByteString.copyFromUtf8("print(1)\n"))),
            RunCodeRequest.newBuilder()
                .setImage("a:1")
                .setBundle(DIGEST)
                .addCommand("true")
                .putFiles("src/a.json", ByteString.copyFromUtf8("{}")),
            RunCodeRequest.newBuilder()
                .setImage("a:1")
                .addCommand("true")
                .addMounts(Mount.newBuilder().setSource(DATA + "/set/../out").setTarget("/in")),
            RunCodeRequest.newBuilder().setImage("a:1").setReservationId("r-1").addCommand("true"))
        .map(builder -> builder.build())
        .map(MessageLite::toByteArray);
  }

  private static Duration seconds(long seconds) {
    return Duration.newBuilder().setSeconds(seconds).build();
  }

  private static byte[] bundle() {
    try {
      return SeedTars.seeds().findFirst().orElseThrow();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String digest(byte[] data) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Services services() {
    try {
      Path file = new Scratch().empty().resolve("services.yaml");
      Files.writeString(
          file,
          """
          services:
            tensorflow:
              image: berth.invalid/tensorflow:2.21
              aliases: [tf]
              interpreter: [python3, -u]
              entrypoint: [tini, --]
              env: {A: "1"}
              memory: 20g
              time: 1d
              ulimits: {nofile: 65536}
          """);
      return Services.load(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void whatItBeginsWithIsPlanned() throws Exception {
    List<byte[]> seeds = seeds().toList();
    for (byte[] seed : seeds.subList(0, 4)) {
      RequestedRun spec = RunMessages.spec(here(RunCodeRequest.parseFrom(seed)));
      assertThat(launch(scratch(), spec)).isNotNull();
    }
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
    Optional<RequestedRun> accepted = Inputs.accepted(() -> RunMessages.spec(here(request)));
    if (accepted.isPresent()) {
      checkTimes(accepted.get());
      ShownText.check("name", accepted.get().name());
      ShownText.check("owner", accepted.get().owner().toString());
      Path scratch = scratch();
      Inputs.accepted(() -> launch(scratch, accepted.get()))
          .ifPresent(launch -> launch.binds().forEach(bind -> checkBind(scratch, bind)));
      assertThat(scratch.resolve("secret")).hasContent("secret");
      try (var left = Files.list(scratch)) {
        assertThat(left.map(path -> path.getFileName().toString()).toList())
            .isSubsetOf("secret", "bundles", "run", "data");
      }
    }
  }

  private static Path scratch() throws IOException {
    Path scratch = SCRATCH.empty();
    Files.writeString(scratch.resolve("secret"), "secret");
    Files.createDirectories(scratch.resolve("data/set"));
    Files.createDirectory(scratch.resolve("data/mine"));
    Files.createSymbolicLink(scratch.resolve("data/out"), scratch);
    Files.createSymbolicLink(scratch.resolve("data/mine/set"), Path.of("../set"));
    return scratch;
  }

  /** The same with the folders of this machine, which {@link #scratch} is to make then. */
  private static RunCodeRequest here(RunCodeRequest request) throws IOException {
    RunCodeRequest.Builder here = request.toBuilder();
    Path root = SCRATCH.empty();
    for (Mount.Builder mount : here.getMountsBuilderList()) {
      if (mount.getSource().startsWith(DATA)) {
        mount.setSource(root + mount.getSource());
      }
    }
    return here.build();
  }

  private static void checkBind(Path scratch, Launch.Bind bind) {
    Path data = scratch.resolve("data");
    assertThat(bind.source().startsWith(data)).as(bind.toString()).isTrue();
    boolean around = data.resolve("set").startsWith(bind.source());
    boolean below = bind.source().startsWith(data.resolve("set"));
    assertThat(bind.readOnly() || !around && !below).as(bind.toString()).isTrue();
  }

  /** Timers count nanoseconds. */
  private static void checkTimes(RequestedRun spec) {
    spec.waitAtMost().ifPresent(java.time.Duration::toNanos);
    spec.limits().time().ifPresent(java.time.Duration::toNanos);
    spec.limits().warning().ifPresent(warning -> warning.before().toNanos());
    spec.limits().idle().ifPresent(idle -> idle.time().toNanos());
    spec.limits().stopGrace().toNanos();
  }

  private static Launch launch(Path scratch, RequestedRun spec) throws IOException {
    Bundles bundles =
        new Bundles(
            scratch.resolve("bundles"),
            new Bundles.Limits(1 << 20, 1 << 20, 1 << 30),
            new StateDisk("gpu1", scratch, Optional.of(0L)),
            DISK);
    if (spec.code() instanceof RequestedRun.Code.Bundle) {
      try (Bundles.Upload upload = bundles.begin(DIGEST)) {
        upload.write(ByteBuffer.wrap(BUNDLE));
        upload.finish();
      }
    }
    Path data = scratch.resolve("data");
    LaunchPlanner planner =
        new LaunchPlanner(
            "gpu1",
            SERVICES,
            MountRules.parse(List.of(data.toString(), data + "/set:ro"), new ClosedFolders()),
            new UidRange(2_100_000_000, 2_100_009_999),
            bundles);
    RunFolder folder = new RunFolder(scratch.resolve("run"));
    Launch launch =
        planner.plan("r-1", folder, spec, planner.binds(spec.mounts()), Optional.empty());
    if (spec.user().isEmpty()) {
      folder.create();
      folder.createForProgram();
      if (spec.code() instanceof RequestedRun.Code.Bundle bundle) {
        planner.bringBundle(folder, bundle);
      }
      planner.bringFiles(folder, spec);
    }
    return launch;
  }
}
