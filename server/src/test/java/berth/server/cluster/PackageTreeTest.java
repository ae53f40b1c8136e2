package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PackageTreeTest {
  @TempDir private Path top;

  @Test
  void aFileThatNobodyMayReadCanBeReadByItsOwner() throws IOException {
    Path file = Files.createFile(top.resolve("cluster.json"));
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("---------"));

    PackageTree.keep(top, OptionalInt.empty());

    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file)))
        .isEqualTo("r--------");
  }
}
