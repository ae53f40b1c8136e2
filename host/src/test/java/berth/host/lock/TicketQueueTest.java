package berth.host.lock;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.rpc.BerthException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Everybody may lock any part of the file in which the line stands. */
class TicketQueueTest {
  private static final long FIRST = 64;

  @TempDir private Path path;
  private LockFolder folder;
  private TicketQueue queue;

  @BeforeEach
  void open() {
    folder = new LockFolder(path);
    queue = new TicketQueue(folder);
  }

  @Test
  void aTicketIsTakenBehindALongLock() {
    try (LockFile other = LockFile.open(folder.queue())) {
      other.tryLock(LibC.F_WRLCK, FIRST, 1_000_000_000_000L);

      try (TicketQueue.Ticket ticket = queue.tryTake().orElseThrow()) {
        assertThat(ticket.ahead()).isEqualTo(Integer.MAX_VALUE);
        other.unlock();
        assertThat(ticket.ahead()).isZero();
      }
    }
  }

  @Test
  void noTicketIsTakenBehindALockWithoutEnd() {
    try (LockFile other = LockFile.open(folder.queue())) {
      other.tryLock(LibC.F_WRLCK, FIRST, 0);

      for (int i = 0; i < 3; i++) {
        assertThatThrownBy(queue::tryTake)
            .isInstanceOf(BerthException.class)
            .hasMessage("another process keeps " + folder.queue() + " locked");
      }
      other.unlock();
      queue.tryTake().orElseThrow().close();
    }
  }

  @Test
  void behindManyLocksATicketIsTakenInSeveralGoes() {
    List<LockFile> others = lockEach(40);
    try {
      for (int i = 0; i < 2; i++) {
        assertThatThrownBy(queue::tryTake)
            .isInstanceOf(BerthException.class)
            .hasMessage("other processes keep many parts of " + folder.queue() + " locked");
      }
      try (TicketQueue.Ticket ticket = queue.tryTake().orElseThrow()) {
        assertThat(ticket.ahead()).isEqualTo(40);
      }
    } finally {
      others.forEach(LockFile::close);
    }
  }

  @Test
  void notAllOfVeryManyAreCounted() {
    try (LockFile other = LockFile.open(folder.queue())) {
      for (int i = 0; i < 3000; i++) {
        other.tryLock(LibC.F_WRLCK, FIRST + 2 * i, 1);
      }
      other.writeLong(0, FIRST + 6000);
      try (TicketQueue.Ticket ticket = queue.tryTake().orElseThrow()) {
        assertThat(ticket.ahead()).isBetween(100, 1000);
      }
    }
  }

  private List<LockFile> lockEach(int count) {
    List<LockFile> others = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      LockFile other = LockFile.open(folder.queue());
      other.tryLock(LibC.F_WRLCK, FIRST + i, 1);
      others.add(other);
    }
    return others;
  }
}
