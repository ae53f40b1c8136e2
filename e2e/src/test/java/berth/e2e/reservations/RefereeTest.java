package berth.e2e.reservations;

import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Installed;
import berth.e2e.fixture.Python;
import berth.e2e.reservations.Referee.Use;
import berth.e2e.reservations.Referee.Verdict;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** That the referee of {@link LockStressTest} sees what it is there for, and nothing else. */
class RefereeTest {
  private static final int LONG = 1000;

  @TempDir private Path folder;
  private Referee referee;

  @BeforeEach
  void start() throws Exception {
    referee = Referee.start(folder);
  }

  @AfterEach
  void end() {
    referee.close();
  }

  @Test
  void seesTwoThatUseTheSameGpu() throws Exception {
    Mortal first = holder("LOCK-1", "0,1", LONG);
    assertThat(first.awaitUse()).contains(Referee.ALONE);
    Mortal second = holder("LOCK-2", "1,2", 0);
    assertThat(second.awaitUse()).contains(Referee.OVERLAP);
    second.join();
    first.killAfter(0);
    first.join();

    Verdict verdict = referee.verdict();
    assertThat(verdict.overlaps()).isEqualTo(1);
    assertThat(verdict.grants(Kind.LOCK)).isEqualTo(2);
    assertThat(referee.evidence()).contains("OVERLAP LOCK-2 with LOCK-1");
  }

  @Test
  void seesWhenLockingIsBypassed() throws Exception {
    try (Use all = referee.enter("LEASE-0", List.of(0, 1, 2, 3), 0)) {
      assertThat(all.answer()).isEqualTo(Referee.ALONE);
      Path elsewhere = Files.createDirectory(folder.resolve("elsewhere"));
      List<String> command = new ArrayList<>(List.of(Installed.command("berth"), "lock"));
      command.addAll(List.of("--simulate-gpus", "4", "--lock-dir", elsewhere.toString(), "--"));
      command.addAll(Python.script("holder.py", referee.socket(), "LOCK-0", 0, 0));
      Mortal unlocked = Mortal.start(folder, command);

      assertThat(unlocked.awaitUse()).contains(Referee.OVERLAP);
      unlocked.join();
    }
    assertThat(referee.verdict().overlaps()).isEqualTo(1);
  }

  @Test
  void isNotFooledByOneThatLeavesBeforeItLooks() throws Exception {
    Use first = referee.enter("LEASE-1", List.of(3), 0);
    referee.signal("STOP");
    SocketChannel second = referee.knock("LEASE-2", List.of(3), 0);
    first.close();
    referee.signal("CONT");

    assertThat(referee.verdict().overlaps()).isEqualTo(1);
    assertThat(referee.evidence()).contains("on GPU 3 with LEASE-1, which left later");
    second.close();
  }

  @Test
  void takesNobodyForThereWhoHasLeftOrWasKilled() throws Exception {
    for (int i = 0; i < 20; i++) {
      Mortal killed = holder("PROCESS-" + i, "0", LONG);
      assertThat(killed.awaitUse()).contains(Referee.ALONE);
      killed.killAfter(0);
      killed.join();
      referee.enter("LEASE-" + i, List.of(0), 0).close();
    }
    Verdict verdict = referee.verdict();
    assertThat(verdict.overlaps()).isZero();
    assertThat(verdict.killedWhileUsing(Kind.PROCESS)).isEqualTo(20);
    assertThat(verdict.killedWhileUsing(Kind.LEASE)).isZero();
    assertThat(verdict.remaining()).isEmpty();
  }

  private Mortal holder(String name, String gpus, int seconds) throws Exception {
    Mortal holder =
        Mortal.start(folder, Python.script("holder.py", referee.socket(), name, seconds, 0));
    holder.tell(gpus);
    return holder;
  }
}
