package berth.server.run;

import berth.fuzz.Inputs;
import berth.fuzz.Scratch;
import berth.fuzz.SeedTars;
import berth.fuzz.Unpacked;
import berth.host.state.DurableFiles;
import berth.rpc.Vitals;
import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class BundlesFuzzTest {
  private static final long MOST_PACKED = 1 << 16;
  private static final long MOST_UNPACKED = 1 << 20;
  private static final Scratch SCRATCH = new Scratch();
  private static final DurableFiles DISK = new DurableFiles(new Vitals());

  static Stream<byte[]> seeds() throws IOException {
    return SeedTars.seeds();
  }

  @MethodSource("seeds")
  @FuzzTest
  void unpacksNothingOutsideOfItsFolderAndNoMoreThanAllowed(byte[] data) throws Exception {
    Path scratch = SCRATCH.empty();
    Path into = Unpacked.beside(scratch);
    Inputs.accepted(() -> upload(data, scratch.resolve("bundles"), into));
    Unpacked.check(scratch, into, MOST_UNPACKED, BundleTar.MAX_ENTRIES);
  }

  private static Path upload(byte[] data, Path folder, Path into) throws Exception {
    Bundles bundles =
        new Bundles(
            folder,
            new Bundles.Limits(MOST_PACKED, MOST_UNPACKED, 1 << 30),
            new StateDisk("gpu1", folder, Optional.of(0L)),
            DISK);
    String digest = HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
    try (Bundles.Upload upload = bundles.begin(digest)) {
      upload.write(ByteBuffer.wrap(data));
      upload.finish();
    }
    bundles.unpack(digest, into);
    return into;
  }
}
