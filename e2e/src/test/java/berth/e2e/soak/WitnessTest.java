package berth.e2e.soak;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.e2e.fixture.Python;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** That the programs of a {@link Soak} see what they are there for, and nothing else. */
class WitnessTest {
  private static final int LONG = 4000;
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  @TempDir private Path folder;
  private final List<SoakCommand> started = new ArrayList<>();
  private Witness witness;

  @BeforeEach
  void open() {
    witness = new Witness(folder.resolve("witness"));
  }

  @AfterEach
  void end() throws InterruptedException {
    for (SoakCommand program : started) {
      program.kill();
      program.process().waitFor();
    }
  }

  private SoakCommand start(String run, String gpus, String name, int ticks, int failures)
      throws IOException {
    return start(run, gpus, witness.words(name, "worker:0", ticks, failures, false));
  }

  private SoakCommand start(String run, String gpus, List<String> rest) throws IOException {
    List<String> words = new ArrayList<>(Python.script("soaked.py"));
    words.addAll(rest);
    SoakCommand program =
        SoakCommand.start(
            folder, Map.of("BERTH_RUN_ID", run, "BERTH_SERVER", "gpu01", "NV_GPU", gpus), words);
    started.add(program);
    return program;
  }

  private Journal awaitWork(String run) {
    await()
        .atMost(PATIENCE)
        .until(() -> witness.journal(run).filter(journal -> journal.lines() > 0).isPresent());
    return witness.journal(run).orElseThrow();
  }

  private Printed printed(SoakCommand program) {
    return Printed.of(program.out().lines().toList());
  }

  @Test
  void aProgramThatIsAloneSeesNothingAndWritesDownWhatItPrinted() throws Exception {
    SoakCommand program = start("run-1", "0,1", "c1", 3, 0);
    assertThat(program.await(PATIENCE)).isTrue();

    Journal journal = witness.journal("run-1").orElseThrow();
    assertThat(program.exitCode()).isZero();
    assertThat(journal.end()).hasValue(0);
    assertThat(journal.gpus()).containsExactly("0", "1");
    assertThat(journal.lines()).isEqualTo(3 * Journal.BATCH);
    assertThat(printed(program).problems()).isEmpty();
    assertThat(printed(program).compare(journal, true)).isEmpty();
    assertThat(witness.seen()).isEmpty();
    assertThat(witness.living()).isEmpty();
  }

  @Test
  void twoWithTheSameGpuAreSeen() throws Exception {
    start("run-1", "0,1", "c1", LONG, 0);
    awaitWork("run-1");
    start("run-2", "1,2", "c2", LONG, 0);
    awaitWork("run-2");

    assertThat(witness.seen()).containsExactly("gpu gpu01-1 run-2 run-1");
    assertThat(witness.seen()).isEmpty();
    assertThat(witness.living())
        .extracting(Journal::run)
        .containsExactlyInAnyOrder("run-1", "run-2");
  }

  @Test
  void aTaskThatIsThereTwiceIsSeen() throws Exception {
    start("run-1", "0", "c1", LONG, 0);
    awaitWork("run-1");
    start("run-2", "1", "c1", LONG, 0);
    awaitWork("run-2");

    assertThat(witness.seen()).containsExactly("task c1.worker:0 run-2 run-1");
    assertThat(witness.journals("c1")).hasSize(2);
  }

  @Test
  void aRunThatIsStartedTwiceIsSeen() throws Exception {
    assertThat(start("run-1", "0", "c1", 1, 0).await(PATIENCE)).isTrue();
    assertThat(start("run-1", "0", "c1", 1, 0).await(PATIENCE)).isTrue();

    assertThat(witness.seen()).containsExactly("again run-1");
  }

  @Test
  void whoeverIsKilledLeavesNothingLockedAndNobodyDoubtsWhatHePrinted() throws Exception {
    SoakCommand program = start("run-1", "0", "c1", LONG, 0);
    assertThat(witness.kill(awaitWork("run-1"))).isTrue();
    assertThat(program.await(PATIENCE)).isTrue();
    start("run-2", "0", "c1", LONG, 0);
    awaitWork("run-2");

    assertThat(witness.seen()).isEmpty();
    assertThat(witness.killed("run-1")).isTrue();
    Journal killed = witness.journal("run-1").orElseThrow();
    assertThat(killed.end()).isEmpty();
    assertThat(printed(program).compare(killed, true)).isEmpty();
  }

  @Test
  void oneThatIsStoppedSaysSoAndTheNextGoesOnWhereItWas() throws Exception {
    SoakCommand program = start("run-1", "", "c1", LONG, 0);
    awaitWork("run-1");
    program.process().destroy();
    assertThat(program.await(PATIENCE)).isTrue();
    assertThat(program.exitCode()).isEqualTo(128 + 15);
    assertThat(witness.journal("run-1").orElseThrow().end()).hasValue(128 + 15);

    SoakCommand next = start("run-2", "", "c1", 1, 0);
    assertThat(next.await(PATIENCE)).isTrue();

    assertThat(next.out().lines().count()).isLessThanOrEqualTo(Journal.BATCH);
    assertThat(witness.journal("run-2").orElseThrow().end()).hasValue(0);
  }

  @Test
  void oneThatIsStubbornGoesOnWhenItIsStopped() throws Exception {
    SoakCommand program = start("run-1", "", witness.words("c1", "ps:0", 1, 0, true));
    int lines = awaitWork("run-1").lines();
    program.process().destroy();

    await().atMost(PATIENCE).until(() -> witness.journal("run-1").orElseThrow().lines() > lines);
    assertThat(program.process().isAlive()).isTrue();
  }

  @Test
  void failsAsOftenAsItShould() throws Exception {
    SoakCommand program = start("run-1", "", "c1", LONG, 1);
    assertThat(program.await(PATIENCE)).isTrue();

    assertThat(program.exitCode()).isEqualTo(3);
    assertThat(witness.journal("run-1").orElseThrow().end()).isEqualTo(OptionalInt.of(3));
  }
}
