package berth.e2e;

import berth.v1.GpuRequest;
import berth.v1.GpuSet;
import berth.v1.Lifetime;
import berth.v1.Limits;
import berth.v1.Owner;
import berth.v1.ReserveRequest;
import berth.v1.RunCodeRequest;
import berth.v1.Source;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import java.util.List;

/** Requests as people make them. */
final class Asked {
  static final Owner ANN = Owner.newBuilder().setUser("ann").setHost("laptop").build();
  static final Owner BOB = Owner.newBuilder().setUser("bob").setHost("desk").build();

  /** Waits until somebody puts a file "go" into the working folder. */
  static final String AWAIT_GO = "until [ -e /work/go ]; do sleep 0.02; done";

  private Asked() {}

  /** A script for the shell of the engine's image. */
  static RunCodeRequest.Builder shell(String script) {
    return command("sh", "-c", script).setImage(Engine.IMAGE);
  }

  static RunCodeRequest.Builder command(String... words) {
    return RunCodeRequest.newBuilder().addAllCommand(List.of(words)).setOwner(ANN);
  }

  static Source.Builder source(String name, String content) {
    return Source.newBuilder().setFileName(name).setContent(ByteString.copyFromUtf8(content));
  }

  /** These GPUs and no others. */
  static GpuRequest gpus(int... indices) {
    GpuSet.Builder set = GpuSet.newBuilder();
    for (int index : indices) {
      set.addIds("" + index);
    }
    return GpuRequest.newBuilder().setExactly(set).build();
  }

  static ReserveRequest reservation(int seconds, int... gpus) {
    return ReserveRequest.newBuilder()
        .setGpus(gpus(gpus))
        .setLifetime(Lifetime.newBuilder().setDuration(seconds(seconds)))
        .setOwner(ANN)
        .build();
  }

  static Limits.Builder grace(double seconds) {
    return Limits.newBuilder().setStopGrace(seconds(seconds));
  }

  static Duration seconds(double seconds) {
    long nanos = (long) (seconds * 1e9);
    return Duration.newBuilder()
        .setSeconds(nanos / 1_000_000_000)
        .setNanos((int) (nanos % 1_000_000_000))
        .build();
  }
}
