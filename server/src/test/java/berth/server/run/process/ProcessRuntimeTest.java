package berth.server.run.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import berth.host.lock.KernelFiles;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.server.reservation.Reservation.Owner;
import berth.server.run.Launch;
import berth.server.run.Limits;
import berth.server.run.RequestedRun;
import berth.server.run.RunEngine;
import berth.server.run.RunFolder;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Plain processes, and whose they may be. */
class ProcessRuntimeTest {
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final String id = "run-" + ProcessHandle.current().pid() + "-" + System.nanoTime();

  @TempDir private Path folder;
  private RunFolder run;

  @BeforeEach
  void make() throws IOException {
    run = new RunFolder(folder.resolve(id));
    for (Path path : List.of(run.io(), run.mark(), run.work())) {
      Files.createDirectories(path);
    }
  }

  @AfterEach
  void remove() {
    runtime(true).remove(id);
  }

  @Test
  void rootIsRootByWhateverName() {
    assumeTrue(KernelFiles.isRoot(), "needs root");
    String name = System.getProperty("user.name");
    System.setProperty("user.name", "toor");
    try {
      assertThatThrownBy(() -> runtime(false).check(launch(Optional.empty())))
          .hasMessageStartingWith("no user asked, and programs must not run as root here");
      assertThatCode(() -> runtime(false).check(launch(1000, 1000))).doesNotThrowAnyException();
    } finally {
      System.setProperty("user.name", name);
    }
  }

  @ParameterizedTest
  @CsvSource({"65534,999", "65534,6", "999,65534", "1,1", "100,1000", "65534,101"})
  void usersAndGroupsOfTheSystemAreRefused(int uid, int gid) {
    assumeTrue(KernelFiles.isRoot(), "needs root");
    Launch launch = launch(uid, gid);

    for (Runnable attempt :
        List.<Runnable>of(
            () -> runtime(false).check(launch),
            // Of one that was accepted when more was allowed.
            () -> runtime(false).create(launch, null))) {
      assertThatThrownBy(attempt::run)
          .isInstanceOfSatisfying(
              BerthException.class,
              refused -> assertThat(refused.reason()).isEqualTo(Reason.DENIED))
          .hasMessage(
              "user "
                  + uid
                  + ":"
                  + gid
                  + " asked, but users and groups below 1000 belong to the system, and some are"
                  + " equivalent to root (group 100 is not); the administrator can allow them with"
                  + " --allow-root");
    }
    assertThatCode(() -> runtime(true).check(launch)).doesNotThrowAnyException();
  }

  @ParameterizedTest
  @CsvSource({"65534,65534", "1000,1000", "1000,100", "2147483647,2147483647"})
  void usersAndGroupsOfPeopleAreTaken(int uid, int gid) {
    assumeTrue(KernelFiles.isRoot(), "needs root");
    assertThatCode(() -> runtime(false).check(launch(uid, gid))).doesNotThrowAnyException();
  }

  @Test
  void aGroupThatMayUseTheContainerEngineIsRefusedWhateverItsNumber() throws IOException {
    assumeTrue(KernelFiles.isRoot(), "needs root");
    Path socket = Files.createFile(folder.resolve("engine.sock"));
    Files.setAttribute(socket, "unix:gid", 1234);
    Function<String, RunFolder> folders = run -> new RunFolder(folder.resolve(run));
    var runtime = new ProcessRuntime(folders, false, List.of(socket));

    assertThatThrownBy(() -> runtime.check(launch(1000, 1234)))
        .hasMessage(
            "user 1000:1234 asked, but group 1234 may use the container engine at "
                + socket
                + ", which is equivalent to root; the administrator can allow it with --allow-root")
        .extracting("reason")
        .isEqualTo(Reason.DENIED);
    assertThatCode(() -> runtime.check(launch(1234, 1235))).doesNotThrowAnyException();
    var allowing = new ProcessRuntime(folders, true, List.of(socket));
    assertThatCode(() -> allowing.check(launch(1000, 1234))).doesNotThrowAnyException();
  }

  /** A disk may lose any part of what was written last, and a program that lives is not its end. */
  @ParameterizedTest
  @ValueSource(strings = {"", "%d", "%d %d", "x %d %s", "%d 1%d %s", "%d %d another-%s", "ÿ", "-"})
  void aProgramWhoseNoteIsDamagedLivesOn(String note) throws Exception {
    ProcessRuntime earlier = runtime(true);
    int pid = earlier.start(launch(Optional.empty())).pid().getAsInt();
    await().atMost(PATIENCE).until(() -> Files.exists(run.work().resolve("begun")));
    Path file = run.io().resolve("pid");
    if (note.equals("-")) {
      Files.delete(file);
    } else {
      long start = KernelFiles.startOf(pid).getAsLong();
      String text =
          note.startsWith("x") ? note.formatted(start, "y") : note.formatted(pid, start, "y");
      Files.write(file, text.getBytes(StandardCharsets.ISO_8859_1));
    }

    ProcessRuntime later = runtime(true);
    List<RunEngine.Running> seen = new ArrayList<>();
    String said = log(() -> seen.add(later.start(launch(Optional.empty()))));
    assertThat(seen.get(0).pid()).hasValue(pid);
    // Three words are another process's note, or that of another boot.
    if (!note.equals("-") && note.split(" ").length < 3 || note.startsWith("x")) {
      assertThat(said).contains(file + " is damaged");
    }
    CompletableFuture<RunEngine.Exit> exit = new CompletableFuture<>();
    Thread waiting =
        new Thread(
            () -> {
              try {
                exit.complete(later.await(id));
              } catch (Exception e) {
                exit.completeExceptionally(e);
              }
            });
    waiting.start();
    Path alive = run.work().resolve("begun");
    for (int i = 0; i < 3; i++) {
      Files.delete(alive);
      await().atMost(PATIENCE).until(() -> Files.exists(alive));
    }
    assertThat(exit).isNotDone();
    later.signal(id, "TERM");
    assertThat(exit.get(PATIENCE.toSeconds(), TimeUnit.SECONDS).code()).isEqualTo(143);
    assertThat(exit.get().lost()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "x", "1234567", "-1", "ÿ"})
  void aDamagedExitCodeIsNamed(String note) throws Exception {
    Path file = run.io().resolve("exit");
    Files.write(file, note.getBytes(StandardCharsets.ISO_8859_1));
    List<RunEngine.Exit> exits = new ArrayList<>();
    assertThat(log(() -> exits.add(runtime(true).await(id)))).contains(file + " is damaged");
    assertThat(exits.get(0).lost())
        .isEqualTo("it has ended with an unknown exit code: " + file + " is damaged");
  }

  // The tests' logger prints to where System.err leads.
  private static String log(Callable<?> task) throws Exception {
    PrintStream usual = System.err;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    System.setErr(new PrintStream(bytes, true, StandardCharsets.UTF_8));
    try {
      task.call();
    } finally {
      System.setErr(usual);
    }
    return bytes.toString(StandardCharsets.UTF_8);
  }

  @Test
  void aProgramOfAnEarlierDaemonIsFoundAgain() throws Exception {
    ProcessRuntime earlier = runtime(true);
    RunEngine.Running running = earlier.start(launch(Optional.empty()));
    await().atMost(PATIENCE).until(() -> Files.exists(run.work().resolve("begun")));

    ProcessRuntime later = runtime(true);

    assertThat(later.start(launch(Optional.empty())).pid()).isEqualTo(running.pid());
    later.signal(id, "TERM");
    assertTimeoutPreemptively(PATIENCE, () -> assertThat(later.await(id).code()).isEqualTo(143));
    assertTimeoutPreemptively(PATIENCE, () -> assertThat(earlier.await(id).code()).isEqualTo(143));
  }

  /** The words are those of the note, with the id, the start and the boot of another process. */
  @ParameterizedTest
  @ValueSource(strings = {"%d", "%d %d", "%d 1%d %s", "%d %d another-%s", "%d x%d %s"})
  void anotherProcessOfTheSameIdIsNotTheProgram(String note) throws Exception {
    Process other = new ProcessBuilder("setsid", "sh", "-c", "read -r line", id).start();
    try {
      int pid = (int) other.pid();
      Files.writeString(
          run.io().resolve("pid"),
          note.formatted(pid, KernelFiles.startOf(pid).getAsLong(), KernelFiles.bootId()) + "\n");

      ProcessRuntime runtime = runtime(true);
      runtime.signal(id, "TERM");
      RunEngine.Exit exit = assertTimeoutPreemptively(PATIENCE, () -> runtime.await(id));

      assertThat(exit.lost()).isEqualTo("its watcher shell was killed");
      other.getOutputStream().write('\n');
      other.getOutputStream().flush();
      assertThat(other.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
      assertThat(other.exitValue()).as("ends by itself").isZero();
    } finally {
      other.destroyForcibly().waitFor();
    }
  }

  private ProcessRuntime runtime(boolean allowRoot) {
    return new ProcessRuntime(run -> new RunFolder(folder.resolve(run)), allowRoot);
  }

  private Launch launch(int uid, int gid) {
    return launch(Optional.of(new RequestedRun.User(uid, gid)));
  }

  private Launch launch(Optional<RequestedRun.User> user) {
    return new Launch(
        id,
        run,
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        List.of("sh", "-c", "while :; do : >begun; sleep 0.02; done"),
        Map.of(),
        RequestedRun.WORK,
        user,
        RequestedRun.Network.HOST,
        List.of(),
        new Limits(
            Optional.empty(),
            Optional.empty(),
            Duration.ofSeconds(1),
            OptionalLong.empty(),
            OptionalDouble.empty(),
            OptionalLong.empty(),
            OptionalLong.empty(),
            Optional.empty()),
        Map.of(),
        List.of(),
        new Owner("ada", "desk"),
        "");
  }
}
