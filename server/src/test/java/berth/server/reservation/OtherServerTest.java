package berth.server.reservation;

import static org.assertj.core.api.Assertions.assertThat;

import berth.host.lock.LockFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OtherServerTest {
  @TempDir private Path folder;
  private Path file;

  @BeforeEach
  void make() {
    file = folder.resolve("lock");
  }

  @Test
  void isDeadIfItsLockIsThereAndFree() {
    LockFile lock = LockFile.open(file);
    assertThat(lock.tryLock()).isTrue();
    assertThat(OtherServer.isDead(folder)).isFalse();
    lock.close();
    assertThat(OtherServer.isDead(folder)).isTrue();
  }

  /** A folder that cannot be seen is another user's, in a container, or on another machine. */
  @Test
  void isNotKnownToBeDeadIfItsLockCannotBeSeen() throws IOException {
    assertThat(OtherServer.isDead(folder.resolve("missing"))).isFalse();
    assertThat(OtherServer.isDead(folder)).isFalse();
    assertThat(file).doesNotExist();
    Files.createSymbolicLink(file, Files.createFile(folder.resolve("elsewhere")));
    assertThat(OtherServer.isDead(folder)).isFalse();
  }

  @Test
  void isLookedAtWithoutARightToWriteAndWithoutWaiting() throws Exception {
    Files.createFile(file);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("r--------"));
    assertThat(OtherServer.isDead(folder)).isTrue();

    Files.delete(file);
    assertThat(new ProcessBuilder("mkfifo", file.toString()).start().waitFor()).isZero();
    assertThat(OtherServer.isDead(folder)).isTrue();
  }

  /** A berthd that starts while others look at its lock must get it. */
  @Test
  void isLookedAtWithoutTakingItsLock() throws Exception {
    try (LockFile lock = LockFile.open(file)) {
      Thread looker =
          new Thread(
              () -> {
                while (!Thread.currentThread().isInterrupted()) {
                  OtherServer.isDead(folder);
                }
              });
      looker.start();
      try {
        for (int i = 0; i < 2000; i++) {
          assertThat(lock.tryLock()).isTrue();
          lock.unlock();
        }
      } finally {
        looker.interrupt();
        looker.join();
      }
    }
  }
}
