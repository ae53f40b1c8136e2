package berth.server.run.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Groups of the real kernel, of the version that this machine has. It needs root. */
class CgroupTest {
  private static final Path ROOT = Path.of("/sys/fs/cgroup");
  private static final long MEBIBYTE = 1 << 20;

  private final String name = "test-" + ProcessHandle.current().pid() + "-" + System.nanoTime();
  private final List<Process> started = new ArrayList<>();

  /** The machine's own hierarchies, and the one of version 2 that some have beside version 1. */
  static Stream<Path> roots() {
    return Stream.of(ROOT, ROOT.resolve("unified"))
        .filter(root -> root.equals(ROOT) || Files.exists(root.resolve("cgroup.controllers")));
  }

  @AfterEach
  void removeGroups() {
    roots()
        .forEach(
            root -> {
              Cgroup group = Cgroup.open(name, root);
              assertThat(group.kill()).isTrue();
              assertThat(group.remove()).isTrue();
            });
    started.forEach(Process::destroyForcibly);
  }

  @AfterAll
  static void removeTheParentUnlessItIsUsed() throws IOException {
    for (String hierarchy : List.of(".", "memory", "cpu", "pids", "unified")) {
      Path parent = ROOT.resolve(hierarchy).resolve("berth");
      try {
        Files.deleteIfExists(parent);
      } catch (IOException e) {
        // A daemon of this machine has groups in it.
      }
    }
  }

  @ParameterizedTest
  @MethodSource("roots")
  void listsWhoJoinedAndTheirChildren(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    assertThat(group.processes()).isEmpty();

    Process shell = startIn(group, "sleep 1000 & echo $!; wait");

    int child = Integer.parseInt(shell.inputReader().readLine());
    assertThat(group.processes()).containsExactlyInAnyOrder((int) shell.pid(), child);
  }

  @ParameterizedTest
  @MethodSource("roots")
  void killsWhateverWasStartedInIt(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    Process shell =
        startIn(
            group,
            "trap '' TERM HUP; setsid -f sleep 1000; (setsid sh -c 'sleep 1000 & sleep 1000' &);"
                + " echo started; sleep 1000");
    assertThat(shell.inputReader().readLine()).isEqualTo("started");
    await().until(() -> group.processes().size() == 6);

    assertThat(group.kill()).isTrue();

    assertThat(group.processes()).isEmpty();
    assertThat(shell.waitFor()).isEqualTo(128 + 9);
  }

  @ParameterizedTest
  @MethodSource("roots")
  void killsProcessesThatStartOthersAllTheTime(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    String forker = "f() { while :; do sh -c ':' & done; }; ";
    Process shell = startIn(group, forker + "f & f & echo started; f");
    assertThat(shell.inputReader().readLine()).isEqualTo("started");

    assertThat(group.kill()).isTrue();

    assertThat(group.processes()).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("roots")
  void isFoundAgainByAnotherProcess(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    Process shell = startIn(group, "echo started; sleep 1000; :");
    shell.inputReader().readLine();

    Cgroup found = Cgroup.open(name, root);

    assertThat(found.procsFiles()).isEqualTo(group.procsFiles());
    assertThat(found.processes()).contains((int) shell.pid());
    assertThat(found.kill()).isTrue();
    assertThat(found.remove()).isTrue();
    assertThat(Cgroup.open(name, root).procsFiles()).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("roots")
  void isRemovedOnlyWithoutProcesses(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    startIn(group, "echo started; sleep 1000; :").inputReader().readLine();

    assertThat(group.remove()).isFalse();
    assertThatThrownBy(() -> Cgroup.create(name, root))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("in use");

    assertThat(group.kill()).isTrue();
    assertThat(group.remove()).isTrue();
    assertThat(group.procsFiles()).isNotEmpty().noneMatch(Files::exists);
    assertThat(group.remove()).isTrue();
  }

  @ParameterizedTest
  @MethodSource("roots")
  void knowsTheGroupsThatARunMadeInIt(Path root) throws Exception {
    Cgroup group = Cgroup.create(name, root).orElseThrow();
    for (Path file : group.procsFiles()) {
      Files.createDirectory(file.resolveSibling("inner"));
    }
    Path inner = group.procsFiles().get(0).resolveSibling("inner").resolve("cgroup.procs");
    Process shell = startIn(group, "echo 0 >" + inner + "; echo started; sleep 1000; :");
    assertThat(shell.inputReader().readLine()).isEqualTo("started");

    assertThat(Files.readString(inner)).contains(Long.toString(shell.pid()));
    assertThat(group.processes()).contains((int) shell.pid());
    assertThat(group.kill()).isTrue();
    assertThat(group.remove()).isTrue();
  }

  @Test
  void killsWhoNeedsMoreMemoryThanTheLimit() throws Exception {
    Cgroup group = Cgroup.create(name).orElseThrow();
    assertThat(group.limitMemory(32 * MEBIBYTE)).isTrue();
    assertThat(group.limitMemory(64 * MEBIBYTE)).isTrue();
    assertThat(group.outOfMemory()).isFalse();

    // It keeps all of it, since there is no end of a line.
    Process hungry = startIn(group, "head -c 200M /dev/zero | tail -n 1 >/dev/null");

    assertThat(hungry.waitFor()).isEqualTo(128 + 9);
    assertThat(group.outOfMemory()).isTrue();
    // Version 2 tells it since Linux 5.19.
    group.peakMemory().ifPresent(peak -> assertThat(peak).isBetween(60 * MEBIBYTE, 64 * MEBIBYTE));
  }

  @Test
  void leavesAloneWhoStaysBelowTheLimitOfMemory() throws Exception {
    Cgroup group = Cgroup.create(name).orElseThrow();
    assertThat(group.limitMemory(128 * MEBIBYTE)).isTrue();

    Process modest = startIn(group, "head -c 20M /dev/zero | tail -n 1 >/dev/null");

    assertThat(modest.waitFor()).isZero();
    assertThat(group.outOfMemory()).isFalse();
    group.peakMemory().ifPresent(peak -> assertThat(peak).isBetween(20 * MEBIBYTE, 100 * MEBIBYTE));
  }

  @Test
  void startsNoMoreProcessesThanTheLimit() throws Exception {
    Cgroup group = Cgroup.create(name).orElseThrow();
    assertThat(group.limitProcesses(5)).isTrue();

    Process shell =
        startIn(group, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 >/dev/null & done; echo all");

    assertThat(shell.inputReader().readLine()).isNull();
    assertThat(shell.waitFor()).isNotZero();
    assertThat(group.processes()).hasSize(4);
  }

  @Test
  void slowsDownWhoNeedsMoreCpuThanTheLimit() throws Exception {
    Cgroup group = Cgroup.create(name).orElseThrow();
    assertThat(group.limitCpus(0.1)).isTrue();

    startIn(group, "while :; do :; done");

    await().until(() -> group.procsFiles().stream().anyMatch(CgroupTest::wasThrottled));
  }

  @Test
  void forgetsWhatAnEarlierGroupOfThatNameSaw() throws Exception {
    Cgroup old = Cgroup.create(name).orElseThrow();
    old.limitMemory(16 * MEBIBYTE);
    startIn(old, "head -c 100M /dev/zero | tail -n 1 >/dev/null").waitFor();
    assertThat(old.outOfMemory()).isTrue();

    Cgroup group = Cgroup.create(name).orElseThrow();

    assertThat(group.outOfMemory()).isFalse();
  }

  @Test
  void isNotMadeWhereThereAreNoControlGroups(@TempDir Path folder) {
    assertThat(Cgroup.create(name, folder)).isEmpty();
    Cgroup none = Cgroup.open(name, folder);
    assertThat(none.procsFiles()).isEmpty();
    assertThat(none.processes()).isEmpty();
    assertThat(none.limitMemory(MEBIBYTE)).isFalse();
    assertThat(none.limitCpus(1)).isFalse();
    assertThat(none.limitProcesses(1)).isFalse();
    assertThat(none.peakMemory()).isEmpty();
    assertThat(none.outOfMemory()).isFalse();
    assertThat(none.kill()).isTrue();
    assertThat(none.remove()).isTrue();
    assertThat(folder).isEmptyDirectory();
  }

  @Test
  void refusesNamesThatLeadElsewhereAndLimitsThatMeanNothing() {
    for (String bad : List.of("", "..", "a/b", "-x", "a'b")) {
      assertThatThrownBy(() -> Cgroup.create(bad)).isInstanceOf(IllegalArgumentException.class);
    }
    Cgroup none = Cgroup.open(name);
    assertThatThrownBy(() -> none.limitMemory(0)).isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> none.limitCpus(Double.NaN))
        .isInstanceOf(IllegalArgumentException.class);
    assertThatThrownBy(() -> none.limitProcesses(-1)).isInstanceOf(IllegalArgumentException.class);
  }

  private static boolean wasThrottled(Path procsFile) {
    try {
      Path stat = procsFile.resolveSibling("cpu.stat");
      return Files.exists(stat)
          && Files.readAllLines(stat).stream()
              .anyMatch(line -> line.startsWith("nr_throttled ") && !line.endsWith(" 0"));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private Process startIn(Cgroup group, String script) throws IOException {
    Process process =
        new ProcessBuilder("sh", "-c", group.joinScript() + " || exit 99; " + script)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    started.add(process);
    return process;
  }

  /** Folders with files of the same names, for the versions that this machine does not have. */
  @Nested
  class Imitation {
    @TempDir private Path root;

    @Test
    void ofVersion2TakesTheLimits() throws IOException {
      Cgroup group = version2("memory cpu pids hugetlb");
      files("berth/run", "memory.max", "memory.swap.max", "cpu.max", "pids.max");

      assertThat(group.limitMemory(64 * MEBIBYTE)).isTrue();
      assertThat(group.limitCpus(1.5)).isTrue();
      assertThat(group.limitProcesses(100)).isTrue();

      assertThat(root.resolve("berth/run/memory.max")).hasContent("67108864");
      assertThat(root.resolve("berth/run/memory.swap.max")).hasContent("0");
      assertThat(root.resolve("berth/run/cpu.max")).hasContent("150000 100000");
      assertThat(root.resolve("berth/run/pids.max")).hasContent("100");
      assertThat(root.resolve("cgroup.subtree_control")).hasContent("+memory +cpu +pids");
      assertThat(root.resolve("berth/cgroup.subtree_control")).hasContent("+memory +cpu +pids");
      assertThat(group.procsFiles()).containsExactly(root.resolve("berth/run/cgroup.procs"));
    }

    @Test
    void ofVersion2LimitsNothingWithoutControllers() throws IOException {
      Cgroup group = version2("hugetlb");

      assertThat(group.limitMemory(64 * MEBIBYTE)).isFalse();
      assertThat(group.limitCpus(1.5)).isFalse();
      assertThat(group.limitProcesses(100)).isFalse();
      assertThat(group.peakMemory()).isEmpty();
      assertThat(group.outOfMemory()).isFalse();
      assertThat(root.resolve("cgroup.subtree_control")).isEmptyFile();
      assertThat(root.resolve("berth/run")).isEmptyDirectory();
    }

    @Test
    void ofVersion2TellsOfMemory() throws IOException {
      Cgroup group = version2("memory");
      Path events = root.resolve("berth/run/memory.events");
      Files.writeString(root.resolve("berth/run/memory.peak"), "12345\n");
      Files.writeString(events, "low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\noom_group_kill 0\n");

      assertThat(group.peakMemory()).hasValue(12345);
      assertThat(group.outOfMemory()).isFalse();
      Files.writeString(events, "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n");
      assertThat(group.outOfMemory()).isTrue();
    }

    @Test
    void ofVersion2LetsTheKernelKill() throws Exception {
      Cgroup group = version2("pids");
      files("berth/run", "cgroup.kill");
      Path processes = root.resolve("berth/run/cgroup.procs");
      Process sleep = new ProcessBuilder("sleep", "1000").start();
      Files.writeString(processes, sleep.pid() + "\n");
      Thread kernel =
          new Thread(
              () -> {
                await().until(() -> Files.size(root.resolve("berth/run/cgroup.kill")) > 0);
                empty(processes);
              });
      kernel.start();

      assertThat(group.kill()).isTrue();

      kernel.join();
      assertThat(root.resolve("berth/run/cgroup.kill")).hasContent("1");
      assertThat(sleep.isAlive()).isTrue();
      sleep.destroyForcibly().waitFor();
    }

    @Test
    void ofAnOldVersion2IsKilledProcessByProcess() throws Exception {
      Cgroup group = version2("pids");
      files("berth/run", "pids.max");
      Path processes = root.resolve("berth/run/cgroup.procs");
      Process sleep = new ProcessBuilder("sleep", "1000").start();
      Files.writeString(processes, "0\n" + sleep.pid() + "\n");
      sleep.onExit().thenRun(() -> empty(processes));

      assertThat(group.kill()).isTrue();

      assertThat(sleep.waitFor(10, TimeUnit.SECONDS)).isTrue();
      assertThat(root.resolve("berth/run/pids.max")).hasContent("0");
    }

    @Test
    void ofVersion1TakesTheLimits() throws IOException {
      for (String controller : List.of("memory", "cpu", "pids")) {
        files(controller, "cgroup.procs");
      }
      Cgroup group = Cgroup.create("run", root).orElseThrow();
      files("memory/berth/run", "memory.limit_in_bytes", "memory.swappiness");
      files("cpu/berth/run", "cpu.cfs_period_us", "cpu.cfs_quota_us");
      files("pids/berth/run", "pids.max");

      assertThat(group.limitMemory(64 * MEBIBYTE)).isTrue();
      assertThat(group.limitCpus(0.001)).isTrue();
      assertThat(group.limitProcesses(100)).isTrue();

      assertThat(root.resolve("memory/berth/run/memory.limit_in_bytes")).hasContent("67108864");
      assertThat(root.resolve("memory/berth/run/memory.swappiness")).hasContent("0");
      assertThat(root.resolve("cpu/berth/run/cpu.cfs_period_us")).hasContent("100000");
      assertThat(root.resolve("cpu/berth/run/cpu.cfs_quota_us")).hasContent("1000");
      assertThat(root.resolve("pids/berth/run/pids.max")).hasContent("100");
      assertThat(group.joinScript())
          .isEqualTo(
              "{ echo 0 >'%1$s/memory/berth/run/cgroup.procs' && echo 0 >'%1$s/cpu/berth/run/cgroup.procs'"
                      .formatted(root)
                  + " && echo 0 >'%s/pids/berth/run/cgroup.procs'; }".formatted(root));
    }

    private Cgroup version2(String controllers) throws IOException {
      files(".", "cgroup.procs", "cgroup.subtree_control");
      files("berth", "cgroup.procs", "cgroup.subtree_control");
      Files.writeString(root.resolve("cgroup.controllers"), controllers + "\n");
      Files.writeString(root.resolve("berth/cgroup.controllers"), controllers + "\n");
      return Cgroup.create("run", root).orElseThrow();
    }

    private void files(String folder, String... names) throws IOException {
      Files.createDirectories(root.resolve(folder));
      for (String name : names) {
        Files.createFile(root.resolve(folder).resolve(name));
      }
    }

    private static void empty(Path file) {
      try {
        Files.writeString(file, "");
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }
  }
}
