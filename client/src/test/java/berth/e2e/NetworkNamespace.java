package berth.e2e;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A machine as far as networks are concerned, or a switch, apart from the network of this machine.
 * It exists as long as a process in it does; the first one ends with this JVM, however that ends.
 */
final class NetworkNamespace implements AutoCloseable {
  private static final String BRIDGE = "bridge";

  private final Process first;
  private int interfaces;

  private NetworkNamespace() {
    try {
      first = new ProcessBuilder("unshare", "--net", "sh", "-c", "echo ready; exec cat").start();
      assertThat(first.inputReader().readLine()).as("only root can do this").isEqualTo("ready");
      assertThat(Files.readSymbolicLink(file()))
          .isNotEqualTo(Files.readSymbolicLink(Path.of("/proc/self/ns/net")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A machine without any network but loopback. */
  static NetworkNamespace machine() {
    NetworkNamespace machine = new NetworkNamespace();
    machine.ip("link set lo up");
    return machine;
  }

  /** A switch, into which machines can be plugged. */
  static NetworkNamespace networkSwitch() {
    NetworkNamespace networkSwitch = new NetworkNamespace();
    networkSwitch.ip("link add " + BRIDGE + " type bridge");
    networkSwitch.ip("link set " + BRIDGE + " up");
    return networkSwitch;
  }

  /**
   * Connects this machine, and returns when it can send.
   *
   * @param address with the length of the network's prefix: {@code 10.0.0.1/24}
   */
  NetworkNamespace plugInto(NetworkNamespace networkSwitch, String address) {
    String port = "port" + networkSwitch.interfaces++;
    String mine = "eth" + interfaces++;
    networkSwitch.ip("link add " + port + " type veth peer name " + mine + " netns " + first.pid());
    networkSwitch.ip("link set " + port + " master " + BRIDGE + " up");
    ip("address add " + address + " broadcast + dev " + mine);
    // Without IPv6, which would send something now and then.
    ip("link set " + mine + " addrgenmode none up");
    await().until(() -> ip("-o link show " + mine).contains("state UP"));
    return this;
  }

  /** Runs {@code ip} here, and returns what it prints. */
  String ip(String words) {
    List<String> command = inside(List.of(("ip " + words).split(" ")));
    Installed.Result result = Installed.run(command.toArray(String[]::new));
    if (result.exitCode() != 0) {
      throw new AssertionError("ip " + words + " failed: " + result.err());
    }
    return result.out();
  }

  /** A command that runs {@code command} here. */
  List<String> inside(List<String> command) {
    List<String> words = new ArrayList<>(List.of("nsenter", "--net=" + file()));
    words.addAll(command);
    return words;
  }

  private Path file() {
    return Path.of("/proc", Long.toString(first.pid()), "ns/net");
  }

  @Override
  public void close() {
    first.destroyForcibly();
  }
}
