package berth.server.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import berth.v1.ClusterStatus;
import berth.v1.Owner;
import berth.v1.StartClusterRequest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What a supervisor sees of a machine, by one that looks around and writes down what it finds. */
class SupervisorSandboxTest {
  // Each line is a question and its answer.
  private static final String PROBE =
      """
      {
        grep -E '^(Uid|Gid|Groups|NoNewPrivs|Cap...):' /proc/self/status | tr '\\t' ' '
        echo "environment: $(env | cut -d = -f 1 | sort | tr '\\n' ' ')"
        echo "top: $(ls -A / | tr '\\n' ' ')"
        echo "etc: $(ls -A /etc | tr '\\n' ' ')"
        echo "processes: $(ls /proc | grep -c '^[0-9]')"
        for path in /root /home /etc/shadow /etc/passwd /var /boot %1$s %2$s %3$s; do
          [ -e "$path" ] && echo "sees: $path"
        done
        for path in / /usr /tmp /etc "$input" "$input/package" "$1"; do
          ( : >"$path/probe" ) 2>/dev/null && echo "writes: $path"
        done
        ( : >"$folder/probe" ) && echo "own folder: can be written"
        unshare --user true 2>/dev/null && echo "makes: a user namespace"
        mount -t tmpfs none "$folder" 2>/dev/null && echo "makes: mounts"
        kill -0 %4$d 2>/dev/null && echo "reaches: the server"
        getent hosts localhost >/dev/null && echo "names: are found"
        cat /proc/net/dev >/dev/null && echo "network: is there"
      } >"$folder/found.new" 2>"$folder/errors"
      mv "$folder/found.new" "$folder/found"
      await never
      """;

  @TempDir private Path folder;
  private Machine machine;

  @BeforeEach
  void open() throws IOException {
    machine = new Machine(folder);
  }

  @AfterEach
  void close() {
    machine.close();
  }

  @Test
  void aSupervisorHasNoPrivilegesAndSeesNothingButItsFolderAndItsPrograms() throws IOException {
    assumeTrue(SupervisorSandbox.owner(Path.of("/proc/self/status")) == 0, "needs root");
    Path other = machine.folderOf(start("other", "await never\n"));
    String id =
        start(
            "probe",
            PROBE.formatted(
                machine.state(),
                other,
                machine.state().resolve("runs"),
                ProcessHandle.current().pid()));
    Path own = machine.folderOf(id).resolve("state");
    await().atMost(Machine.PATIENCE).until(() -> Files.exists(own.resolve("found")));
    List<String> found = Files.readAllLines(own.resolve("found"));
    int uid = SupervisorSandbox.owner(own);

    assertThat(uid).isBetween(2_100_000_000, 2_100_000_999);
    assertThat(SupervisorSandbox.owner(other.resolve("state"))).isNotEqualTo(uid);
    assertThat(found)
        .contains(
            "Uid: %1$d %1$d %1$d %1$d".formatted(uid),
            "Gid: %1$d %1$d %1$d %1$d".formatted(uid),
            "NoNewPrivs: 1",
            "CapInh: 0000000000000000",
            "CapPrm: 0000000000000000",
            "CapEff: 0000000000000000",
            "CapBnd: 0000000000000000",
            "CapAmb: 0000000000000000",
            "environment: BERTH_JAVA_OPTS JAVA_HOME LC_ALL OLDPWD PATH PWD ",
            "processes: 1",
            "own folder: can be written",
            "names: are found",
            "network: is there");
    assertThat(found).anyMatch(line -> line.strip().equals("Groups:"));
    // The folders on the way to its own are there, and hold nothing else.
    assertThat(found.stream().filter(line -> line.startsWith("sees: ")))
        .containsExactly("sees: " + machine.state());
    assertThat(found.stream().filter(line -> line.matches("(writes|makes|reaches): .*"))).isEmpty();
    assertThat(words(found, "etc: ")).doesNotContain("shadow", "passwd", "berth", "ssh");
    Set<String> usual =
        Set.of("bin", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr");
    Set<String> top = new TreeSet<>(words(found, "top: "));
    top.removeAll(usual);
    assertThat(top).containsExactly(folder.getName(0).toString());
  }

  /** On a machine whose list of name servers is at {@code names}, beside somebody's socket. */
  @ParameterizedTest
  @CsvSource({
    "/run/resolv.conf, /run/socket, no socket",
    "/run/names/resolv.conf, /run/socket, no socket",
    "/run/names/resolv.conf, /run/names/other, the socket",
    "/etc/names.conf, /run/socket, no socket"
  })
  void theNameServersOfTheMachineAreSeenAndNothingElseOfWhatRuns(
      String names, String socket, String seen) throws Exception {
    assumeTrue(SupervisorSandbox.owner(Path.of("/proc/self/status")) == 0, "needs root");
    ClusterFolder place = machine.place("c-0123456789");
    place.create(OptionalInt.of(2_100_000_007));
    List<String> words =
        new ArrayList<>(
            List.of(
                "unshare",
                "--mount",
                "sh",
                "-ec",
                """
                mount -t tmpfs none /etc
                : >/etc/hosts
                mount -t tmpfs none /run
                mkdir -p "${1%/*}" "${2%/*}"
                echo nameserver 192.0.2.1 >"$1"
                echo >"$2"
                ln -s "$1" /etc/resolv.conf
                shift 2
                exec "$@"
                """,
                "sh",
                names,
                socket));
    words.addAll(
        machine
            .sandbox()
            .around(
                place,
                List.of(
                    "sh",
                    "-c",
                    "cat /etc/resolv.conf; [ -e \"$0\" ] && echo the socket || echo no socket",
                    socket)));

    Process probe = new ProcessBuilder(words).redirectErrorStream(true).start();
    String found = new String(probe.getInputStream().readAllBytes(), StandardCharsets.UTF_8);

    assertThat(found).isEqualTo("nameserver 192.0.2.1\n" + seen + "\n");
    assertThat(probe.waitFor()).isZero();
  }

  @Test
  void aServerThatIsNotRootForbidsNewPrivileges() throws IOException {
    ClusterFolder place = machine.place("c-0123456789");

    assertThat(SupervisorSandbox.ofThisUser().around(place, List.of("supervise")))
        .startsWith("setpriv", "--no-new-privs", "--")
        .endsWith(place.state().toString(), "supervise");
  }

  @Test
  void nothingIsSupervisedAsRoot() throws IOException {
    assumeTrue(SupervisorSandbox.owner(Path.of("/proc/self/status")) == 0, "needs root");
    ClusterFolder place = machine.place("c-0123456789");
    place.create(OptionalInt.empty());

    assertThatThrownBy(() -> machine.sandbox().around(place, List.of("supervise")))
        .hasMessageContaining("belongs to root");
  }

  private String start(String name, String behaviour) {
    return machine
        .stub()
        .startCluster(
            StartClusterRequest.newBuilder()
                .setName(name)
                .setOwner(Owner.newBuilder().setUser("ada"))
                .setBundle(machine.upload(behaviour, Map.<String, ClusterStatus>of()))
                .build())
        .getClusterId();
  }

  private static Set<String> words(List<String> found, String question) {
    return found.stream()
        .filter(line -> line.startsWith(question))
        .flatMap(line -> List.of(line.substring(question.length()).split(" ")).stream())
        .collect(Collectors.toSet());
  }
}
