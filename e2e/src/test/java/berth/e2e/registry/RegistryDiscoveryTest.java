package berth.e2e.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import berth.discovery.Reach;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Installed;
import berth.e2e.fixture.NetworkNamespace;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Who finds whom by UDP, between machines on networks of their own. */
class RegistryDiscoveryTest {
  private static final int PORT = 18811;
  private static final int PATIENCE_MILLIS = 10_000;

  @TempDir private Path folder;
  private final Deque<AutoCloseable> opened = new ArrayDeque<>();

  /** What a seeker saw. */
  private record Sight(List<String> registries, long millis) {}

  @AfterEach
  void close() throws Exception {
    while (!opened.isEmpty()) {
      opened.pop().close();
    }
  }

  @Test
  void aRegistryIsFoundByBroadcast() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    registry(machine().plugInto(lan, "10.77.0.2/24"), "0.0.0.0:4711", "one");
    machine().plugInto(lan, "10.77.0.3/24");

    Sight sight = seek(user, Reach.LOCAL_NETWORK, PATIENCE_MILLIS);

    assertThat(sight.registries()).containsExactly("one 10.77.0.2:4711");
    assertThat(sight.millis()).isLessThan(PATIENCE_MILLIS / 2);
  }

  @Test
  void aProgramThatNamesNoRegistryUsesTheOneThatAnswers() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    NetworkNamespace host = machine().plugInto(lan, "10.77.0.2/24");
    registry(host, "0.0.0.0:4711", "one");

    assertThat(java(user, ServerNames.class).out()).isEqualTo("the servers: []\n");
    assertThat(java(machine().plugInto(networkSwitch(), "10.77.0.1/24"), ServerNames.class).err())
        .contains("NOT_FOUND: no registry answers on the local network");
  }

  @Test
  void allRegistriesOfANetworkAreFound() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    registry(machine().plugInto(lan, "10.77.0.2/24"), "0.0.0.0:4711", "one");
    // The same name and port, as two hosts that were never told theirs may have.
    registry(machine().plugInto(lan, "10.77.0.3/24"), "0.0.0.0:4711", "one");

    // On a busy machine, one that has just started may answer too late for the first search.
    await()
        .untilAsserted(
            () ->
                assertThat(seek(user, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries())
                    .containsExactlyInAnyOrder("one 10.77.0.2:4711", "one 10.77.0.3:4711"));
  }

  @Test
  void nobodyIsFoundWhereNobodyIsAndNotLaterThanAskedFor() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    machine().plugInto(lan, "10.77.0.2/24");

    Sight sight = seek(user, Reach.LOCAL_NETWORK, 500);

    assertThat(sight.registries()).isEmpty();
    assertThat(sight.millis()).isBetween(500L, 5000L);
  }

  @Test
  void aRegistryOnLoopbackIsFoundByNoOtherMachine() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    NetworkNamespace host = machine().plugInto(lan, "10.77.0.2/24");
    registry(host, "127.0.0.1:4711", "one");

    assertThat(seek(host, Reach.THIS_MACHINE, PATIENCE_MILLIS).registries())
        .containsExactly("one 127.0.0.1:4711");
    assertThat(seek(user, Reach.LOCAL_NETWORK, 500).registries()).isEmpty();
  }

  @Test
  void aQueryToThisMachineDoesNotLeaveIt() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user = machine().plugInto(lan, "10.77.0.1/24");
    registry(machine().plugInto(lan, "10.77.0.2/24"), "0.0.0.0:4711", "one");
    String before = sentBy(user);

    assertThat(seek(user, Reach.THIS_MACHINE, 500).registries()).isEmpty();
    assertThat(sentBy(user)).isEqualTo(before);
    assertThat(seek(user, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries()).hasSize(1);
    assertThat(sentBy(user)).isNotEqualTo(before);
  }

  @Test
  void aRegistryOfThisMachineIsFoundOnceWithItsLoopbackAddress() {
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace host = machine().plugInto(lan, "10.77.0.1/24");
    machine().plugInto(lan, "10.77.0.2/24");
    registry(host, "0.0.0.0:4711", "one");

    assertThat(seek(host, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries())
        .containsExactly("one 127.0.0.1:4711");
  }

  @Test
  void aRegistryIsFoundOnceOverTwoNetworks() {
    NetworkNamespace first = networkSwitch();
    NetworkNamespace second = networkSwitch();
    NetworkNamespace user =
        machine().plugInto(first, "10.77.0.1/24").plugInto(second, "10.78.0.1/24");
    NetworkNamespace host =
        machine().plugInto(first, "10.77.0.2/24").plugInto(second, "10.78.0.2/24");
    registry(host, "0.0.0.0:4711", "one");

    assertThat(seek(user, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries())
        .hasSize(1)
        .allMatch(found -> found.matches("one 10\\.7[78]\\.0\\.2:4711"));
  }

  @Test
  void aRegistryThatListensOnOneAddressIsFoundWithThatOne() {
    NetworkNamespace first = networkSwitch();
    NetworkNamespace second = networkSwitch();
    NetworkNamespace user =
        machine().plugInto(first, "10.77.0.1/24").plugInto(second, "10.78.0.1/24");
    NetworkNamespace host =
        machine().plugInto(first, "10.77.0.2/24").plugInto(second, "10.78.0.2/24");
    registry(host, "10.78.0.2:4711", "one");

    for (NetworkNamespace seeker : List.of(user, host)) {
      assertThat(seek(seeker, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries())
          .containsExactly("one 10.78.0.2:4711");
    }
    assertThat(seek(host, Reach.THIS_MACHINE, PATIENCE_MILLIS).registries())
        .containsExactly("one 10.78.0.2:4711");
  }

  @Test
  void aNetworkThatRefusesDoesNotHideAnother() {
    NetworkNamespace refusing = networkSwitch();
    NetworkNamespace lan = networkSwitch();
    NetworkNamespace user =
        machine().plugInto(refusing, "10.76.0.1/24").plugInto(lan, "10.77.0.1/24");
    user.ip("route del broadcast 10.76.0.255 dev eth0 table local");
    user.ip("route replace prohibit 10.76.0.255/32");
    registry(machine().plugInto(lan, "10.77.0.2/24"), "0.0.0.0:4711", "one");

    assertThat(seek(user, Reach.LOCAL_NETWORK, PATIENCE_MILLIS).registries())
        .containsExactly("one 10.77.0.2:4711");
  }

  @Test
  void aMachineWithoutANetworkFindsNobody() {
    NetworkNamespace user = machine();
    assertThat(seek(user, Reach.LOCAL_NETWORK, 300).registries()).isEmpty();

    user.ip("link set lo down");
    assertThat(seek(user, Reach.LOCAL_NETWORK, 300).registries()).isEmpty();
  }

  @Test
  void aSecondRegistryOfAMachineServesWithoutBeingFound() throws Exception {
    NetworkNamespace host = machine();
    registry(host, "127.0.0.1:4711", "one");
    Daemon second = registry(host, "127.0.0.1:4712", "two");

    assertThat(second.log())
        .contains(
            "discovery is off: cannot listen for queries on UDP"
                + " 127.0.0.1:18811: Address already in use");
    assertThat(seek(host, Reach.THIS_MACHINE, PATIENCE_MILLIS).registries())
        .containsExactly("one 127.0.0.1:4711");
    assertThat(second.stop()).isZero();
  }

  @Test
  void aRegistryThatIsToAnswerNobodyIsNotFound() {
    NetworkNamespace host = machine();
    registry(host, "127.0.0.1:4711", "one", "--discovery-port", "0");

    assertThat(seek(host, Reach.THIS_MACHINE, 300).registries()).isEmpty();
  }

  @Test
  void aNameThatIsNoneIsRefused() {
    Installed.Result result =
        Installed.run(
            Installed.command("berth-registry"), "--listen", "127.0.0.1:0", "--name", "a b");

    assertThat(result.err()).contains("berth-registry: a registry cannot be called 'a b'");
    assertThat(result.exitCode()).isEqualTo(125);
  }

  private NetworkNamespace machine() {
    return closedLater(NetworkNamespace.machine());
  }

  private NetworkNamespace networkSwitch() {
    return closedLater(NetworkNamespace.networkSwitch());
  }

  private Daemon registry(NetworkNamespace host, String listen, String name, String... more) {
    List<String> args = new ArrayList<>(List.of("--listen", listen, "--insecure", "--name", name));
    args.addAll(List.of(more));
    return closedLater(Daemon.startIn(host, folder, "berth-registry", args.toArray(String[]::new)));
  }

  private <T extends AutoCloseable> T closedLater(T resource) {
    opened.push(resource);
    return resource;
  }

  private static Installed.Result java(NetworkNamespace host, Class<?> main, String... args) {
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin/java").toString(),
                "-cp",
                System.getProperty("java.class.path"),
                main.getName()));
    command.addAll(List.of(args));
    return Installed.run(host.inside(command).toArray(String[]::new));
  }

  private static Sight seek(NetworkNamespace host, Reach reach, int millis) {
    Installed.Result result =
        java(host, Seeker.class, reach.name(), Integer.toString(PORT), Integer.toString(millis));
    assertThat(result.err()).isEmpty();
    List<String> lines = result.out().lines().toList();
    int last = lines.size() - 1;
    return new Sight(lines.subList(0, last), Long.parseLong(lines.get(last)));
  }

  /** The counters of bytes and packets that a machine has sent to its network. */
  private static String sentBy(NetworkNamespace host) {
    return host.ip("-s link show eth0").lines().reduce((line, next) -> next).orElseThrow();
  }
}
