package berth.e2e.runs;

import static berth.e2e.fixture.Asked.command;
import static berth.e2e.fixture.Asked.shell;
import static org.assertj.core.api.Assertions.assertThat;

import berth.e2e.fixture.Heard;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.RunServer;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import berth.v1.RunCodeRequest;
import berth.v1.UserId;
import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What plain processes may do whose server is root. */
class ProcessPrivilegesTest {
  private static final UserId NOBODY = UserId.newBuilder().setUid(65534).setGid(65534).build();

  @TempDir private static Path folder;
  // Where everybody can look and write.
  @TempDir private Path open;
  private static RunServer server;

  @BeforeAll
  static void start() {
    server = new RunServer(folder, "--runtime", "process", "--simulate-gpus", "2");
  }

  @AfterEach
  void leavesNothing() {
    server.assertNothingLeft();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  /** Each tool that the launcher might look for writes down who called it. */
  @Test
  void thePathOfTheCallerLeadsNobodyAstrayBeforeThePrivilegesAreDropped() throws IOException {
    Path seen = openFile("seen");
    Path tools = Files.createDirectory(open.resolve("tools"));
    for (String tool :
        List.of(
            "mv", "sh", "setsid", "setpriv", "env", "mount", "mkdir", "unshare", "cat", "kill")) {
      script(
          tools.resolve(tool),
          "/usr/bin/id -u >>"
              + seen
              + "; PATH=/usr/sbin:/usr/bin:/sbin:/bin; exec "
              + tool
              + " \"$@\"");
    }
    open(tools, "rwxr-xr-x");

    Heard heard = server.run(asNobody("id -u; mv a b").putEnv("PATH", tools + ":/usr/bin:/bin"));

    assertThat(heard.exited().getExitCode()).isNotNegative();
    assertThat(heard.outText()).isEqualTo("65534\n");
    assertThat(Files.readAllLines(seen)).isNotEmpty().containsOnly("65534");
  }

  @Test
  void aLibraryOfTheCallerIsLoadedByNothingBeforeThePrivilegesAreDropped() throws IOException {
    Path seen = openFile("seen");
    Path source =
        Files.writeString(
            open.resolve("x.c"),
            """
            #include <stdio.h>
            #include <unistd.h>
            __attribute__((constructor)) static void loaded(void) {
              FILE *file = fopen("%s", "a");
              if (file) fprintf(file, "%%d\\n", (int) geteuid()), fclose(file);
            }
            """
                .formatted(seen));
    Path library = open.resolve("x.so");
    assertThat(Installed.run("gcc", "-shared", "-fPIC", "-o", library + "", source + "").exitCode())
        .isZero();
    open(library, "rwxr-xr-x");

    Heard heard = server.run(asNobody("id -u").putEnv("LD_PRELOAD", library.toString()));

    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("65534\n");
    assertThat(Files.readAllLines(seen)).isNotEmpty().containsOnly("65534");
  }

  @Test
  void theProgramHasNoPrivilegesAndCannotGetAny() {
    Heard heard =
        server.run(asNobody("grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status"));
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText().replaceAll("[ \t]+", " ").replace(" \n", "\n"))
        .isEqualTo(
            """
            Uid: 65534 65534 65534 65534
            Gid: 65534 65534 65534 65534
            Groups:
            CapInh: 0000000000000000
            CapPrm: 0000000000000000
            CapEff: 0000000000000000
            CapBnd: 0000000000000000
            CapAmb: 0000000000000000
            NoNewPrivs: 1
            """);
  }

  @Test
  void usersBeyondTheRangeOfTheKernelAreRefused() {
    for (UserId user :
        List.of(
            UserId.newBuilder().setUid(-1).setGid(65534).build(),
            UserId.newBuilder().setUid(65534).setGid(-1).build(),
            UserId.newBuilder().setUid(Integer.MIN_VALUE).setGid(1).build())) {
      assertThat(refused(Reason.INVALID, shell("id -u").setUser(user)))
          .endsWith("asked; user and group must be from 0 to 2147483647");
    }
  }

  @Test
  void nobodyIsRootUnlessTheAdministratorAllowsIt() {
    assertThat(refused(Reason.DENIED, shell("id -u")))
        .isEqualTo(
            "no user asked, and programs must not run as root here: name one with --user UID:GID;"
                + " the administrator can allow root with --allow-root");
    assertThat(refused(Reason.DENIED, shell("id -u").setUser(UserId.getDefaultInstance())))
        .startsWith("user 0:0 asked, but programs must not run as root here");
    assertThat(refused(Reason.DENIED, shell("id -u").setUser(user(1, 0))))
        .startsWith("user 1:0 asked");
  }

  @Test
  void nobodyIsInAGroupOfTheSystemThatIsAsGoodAsRoot() {
    assertThat(refused(Reason.DENIED, shell("id -u").setUser(user(65534, 6))))
        .startsWith("user 65534:6 asked, but users and groups below 1000 belong to the system");
    Heard heard = server.run(shell("id -g").setUser(user(65534, 100)));
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText()).isEqualTo("100\n");
  }

  @Test
  void nobodyIsTheSupervisorOfACluster() {
    assertThat(refused(Reason.DENIED, shell("id -u").setUser(user(2_100_000_005, 65534))))
        .startsWith("user 2100000005:65534 asked, but users and groups from 2100000000 to");
    assertThat(refused(Reason.DENIED, shell("id -u").setUser(user(65534, 2_100_009_999))))
        .startsWith("user 65534:2100009999 asked");
  }

  @Test
  void aProgramReachesItsWorkingFolderAndNothingElseOfAnyRun() throws Exception {
    Heard heard =
        server.run(
            asNobody(
                    "pwd; cat in/file \"$BERTH_WORK/in/file\"; echo out >\"$BERTH_WORK/result\";"
                        + " for f in ../request ../state ../spool ../io/pid \"$OTHERS\"; do"
                        + " cat \"$f\" 2>/dev/null && echo read $f;"
                        + " ls \"$f\" >/dev/null 2>&1 && echo listed $f; done; ls -A ..")
                .putEnv("OTHERS", server.state() + "/lock")
                .putFiles("in/file", ByteString.copyFromUtf8("in\n")));

    assertThat(heard.exited().getExitCode()).isZero();
    Path run = server.runFolder(heard.runId());
    assertThat(heard.outText()).isEqualTo(run + "/work\nin\nin\nwork\n");
    assertThat(run.resolve("work/result")).hasContent("out\n");
    assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(run)))
        .isEqualTo("rwx------");
  }

  @Test
  void aWorkingFolderThatIsClosedToTheUserIsRefusedAsAShellWould() throws IOException {
    Path closed = Files.createDirectory(open.resolve("closed"));
    Files.writeString(closed.resolve("secret"), "secret");
    open(closed, "rwx------");
    Heard heard = server.run(asNobody("cat secret").setWorkingDir(closed.toString()));
    assertThat(heard.exited().getExitCode()).isEqualTo(126);
    assertThat(heard.outText()).isEmpty();
    assertThat(heard.errText()).contains("can't cd to " + closed);
  }

  @Test
  void variablesArriveAsTheyWereSentWhateverTheirNames() {
    String odd = "a 'b' \"c\" $HOME `id` \\ \n(d); *";
    // Not by a shell, which would drop some of them.
    Heard heard =
        server.run(
            command("/usr/bin/env", "-0")
                .setUser(NOBODY)
                .putEnv("PLAIN", odd)
                .putEnv("with.dot-dash", odd)
                .putEnv("LC_ALL", "xx_XX")
                .putEnv("UID", "u")
                .putEnv("IFS", ",")
                .putEnv("EMPTY", ""));
    assertThat(heard.exited().getExitCode()).isZero();
    assertThat(heard.outText().split("\0"))
        .contains(
            "PLAIN=" + odd,
            "with.dot-dash=" + odd,
            "LC_ALL=xx_XX",
            "UID=u",
            "IFS=,",
            "EMPTY=",
            "BERTH_RUN_ID=" + heard.runId())
        .noneMatch(line -> line.startsWith("BERTH_VALUE"));
  }

  private static UserId user(int uid, int gid) {
    return UserId.newBuilder().setUid(uid).setGid(gid).build();
  }

  private static RunCodeRequest.Builder asNobody(String script) {
    return shell(script).setUser(NOBODY);
  }

  private static String refused(Reason reason, RunCodeRequest.Builder request) {
    BerthException failure = server.run(request).failed();
    assertThat(failure.reason()).isEqualTo(reason);
    return failure.getMessage();
  }

  private Path openFile(String name) throws IOException {
    open(open, "rwxrwxrwx");
    return open(Files.createFile(open.resolve(name)), "rw-rw-rw-");
  }

  private void script(Path file, String content) throws IOException {
    Files.writeString(file, "#!/bin/sh\n" + content + "\n");
    open(file, "rwxr-xr-x");
  }

  private static Path open(Path path, String mode) throws IOException {
    return Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
  }
}
