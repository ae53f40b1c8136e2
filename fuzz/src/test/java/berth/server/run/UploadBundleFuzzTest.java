package berth.server.run;

import static org.assertj.core.api.Assertions.assertThat;

import berth.fuzz.SeedTars;
import berth.rpc.DirectCall;
import berth.server.LocalServer;
import berth.v1.UploadBundleRequest;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.google.protobuf.ByteString;
import io.grpc.Status;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What one caller does in one upload, step by step: a byte says what, two more how many bytes of
 * the input belong to it. Who does nothing more goes away.
 */
class UploadBundleFuzzTest {
  private enum Kind {
    /** Sends bytes of the bundle. */
    DATA,
    /** The same over and over, until it is more than allowed. */
    MUCH_DATA,
    /** Announces what all bytes of the bundle that follow really are. */
    DIGEST,
    /** Announces something else. */
    OTHER_DIGEST,
    /** Sends any message. */
    MESSAGE,
    END,
    GO
  }

  private record Step(Kind kind, byte[] bytes) {}

  private static LocalServer server;
  private static Path bundles;
  private static List<String> beside;

  @BeforeAll
  static void open() throws Exception {
    server = new LocalServer();
    bundles = server.state().resolve("bundles");
    beside = names(server.state());
  }

  @AfterAll
  static void close() {
    server.close();
  }

  static Stream<byte[]> seeds() throws IOException {
    byte[] tar = SeedTars.seeds().skip(2).findFirst().orElseThrow();
    byte[] first = java.util.Arrays.copyOf(tar, 700);
    byte[] second = java.util.Arrays.copyOfRange(tar, 700, tar.length);
    byte[] none = {};
    byte[] message =
        UploadBundleRequest.newBuilder().setData(ByteString.copyFrom(first)).build().toByteArray();
    return Stream.of(
        steps(
            new Step(Kind.DIGEST, none),
            new Step(Kind.DATA, first),
            new Step(Kind.DATA, second),
            new Step(Kind.END, none)),
        steps(new Step(Kind.DIGEST, none), new Step(Kind.DATA, first), new Step(Kind.GO, none)),
        steps(new Step(Kind.DATA, first), new Step(Kind.DIGEST, none), new Step(Kind.END, none)),
        steps(
            new Step(Kind.OTHER_DIGEST, "../secret".getBytes(StandardCharsets.UTF_8)),
            new Step(Kind.MESSAGE, message),
            new Step(Kind.END, none)),
        steps(
            new Step(Kind.OTHER_DIGEST, "0".repeat(64).getBytes(StandardCharsets.UTF_8)),
            new Step(Kind.DIGEST, none),
            new Step(Kind.DATA, first),
            new Step(Kind.END, none)),
        steps(
            new Step(Kind.DIGEST, none), new Step(Kind.MUCH_DATA, first), new Step(Kind.END, none)),
        steps(new Step(Kind.END, none)));
  }

  private static byte[] steps(Step... steps) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (Step step : steps) {
      bytes.write(step.kind.ordinal());
      bytes.write(step.bytes.length >> 8);
      bytes.write(step.bytes.length);
      bytes.writeBytes(step.bytes);
    }
    return bytes.toByteArray();
  }

  private static List<Step> read(byte[] data) {
    List<Step> steps = new ArrayList<>();
    ByteBuffer in = ByteBuffer.wrap(data);
    while (in.remaining() >= 3) {
      Kind kind = Kind.values()[(in.get() & 0xff) % Kind.values().length];
      byte[] bytes = new byte[Math.min(in.getShort() & 0xffff, in.remaining())];
      in.get(bytes);
      steps.add(new Step(kind, bytes));
    }
    return steps;
  }

  @MethodSource("seeds")
  @FuzzTest
  void isAnsweredOnceAndKeepsNothingButWholeBundles(byte[] data) throws Exception {
    try (Stream<Path> last = Files.list(bundles)) {
      for (Path file : last.toList()) {
        Files.delete(file);
      }
    }
    DirectCall<?, ?> call = DirectCall.to(server.method("berth.v1.RunService/UploadBundle"));
    boolean ended = carryOut(read(data), call);

    if (ended) {
      // An answer is followed by the end.
      call.await(2);
      assertThat(call.status()).as("how it ended").isNotNull();
    }
    assertThat(call.misuse()).isEmpty();
    if (call.status() != null) {
      assertThat(call.status().getCode()).isNotIn(Status.Code.INTERNAL, Status.Code.UNKNOWN);
      assertThat(call.answers()).hasSize(call.status().isOk() ? 1 : 0);
    }
    assertThat(names(server.folder())).containsExactlyInAnyOrder("locks", "state");
    assertThat(names(server.state())).containsExactlyInAnyOrderElementsOf(beside);
    for (String name : names(bundles)) {
      byte[] kept = Files.readAllBytes(bundles.resolve(name));
      assertThat(kept).hasSizeLessThanOrEqualTo(LocalServer.BUNDLE_LIMIT);
      assertThat(name).isEqualTo(digest(kept));
    }
  }

  /** Whether the caller waits for an answer in the end. */
  private static boolean carryOut(List<Step> steps, DirectCall<?, ?> call) {
    for (int i = 0; i < steps.size(); i++) {
      Step step = steps.get(i);
      switch (step.kind) {
        case DATA -> send(call, step.bytes);
        case MUCH_DATA -> {
          for (int sent = 0; sent <= LocalServer.BUNDLE_LIMIT; sent += step.bytes.length + 512) {
            send(call, step.bytes);
          }
        }
        case DIGEST -> send(call, digest(following(steps.subList(i, steps.size()))));
        case OTHER_DIGEST -> send(call, new String(step.bytes, StandardCharsets.UTF_8));
        case MESSAGE -> {
          if (!call.send(step.bytes)) {
            call.cancel();
            return false;
          }
        }
        case END -> {
          call.halfClose();
          return true;
        }
        case GO -> {
          call.cancel();
          return false;
        }
      }
    }
    call.cancel();
    return false;
  }

  private static void send(DirectCall<?, ?> call, byte[] data) {
    call.send(
        UploadBundleRequest.newBuilder().setData(ByteString.copyFrom(data)).build().toByteArray());
  }

  private static void send(DirectCall<?, ?> call, String digest) {
    call.send(UploadBundleRequest.newBuilder().setDigest(digest).build().toByteArray());
  }

  private static byte[] following(List<Step> steps) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    for (Step step : steps) {
      if (step.kind == Kind.END || step.kind == Kind.GO) {
        break;
      }
      if (step.kind == Kind.DATA) {
        bytes.writeBytes(step.bytes);
      }
    }
    return bytes.toByteArray();
  }

  private static String digest(byte[] data) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  private static List<String> names(Path folder) throws IOException {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(path -> path.getFileName().toString()).toList();
    }
  }
}
