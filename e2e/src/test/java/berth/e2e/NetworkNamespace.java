package berth.e2e;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A machine as far as networks are concerned, or a switch, apart from the network of this machine.
 * It exists as long as a process in it does. The first one ends with this JVM, however that ends,
 * and kills all others.
 */
final class NetworkNamespace implements AutoCloseable {
  private static final String BRIDGE = "bridge";

  private static final String FIRST =
      """
      echo ready
      cat
      left=yes
      while [ $left ]; do
        left=
        for process in /proc/[0-9]*; do
          if [ $process != /proc/$$ ] && [ $process/ns/net -ef /proc/$$/ns/net ]; then
            kill -9 ${process#/proc/}
            left=yes
          fi
        done
      done
      """;

  private final Path file;
  private final Optional<Process> first;
  private final List<Cable> cables = new ArrayList<>();
  private int interfaces;

  private record Cable(NetworkNamespace networkSwitch, String port) {
    void set(String state) {
      networkSwitch.ip("link set " + port + " " + state);
    }
  }

  private NetworkNamespace(Path file, Optional<Process> first) {
    this.file = file;
    this.first = first;
    try {
      assertThat(Files.readAttributes(file, BasicFileAttributes.class).fileKey())
          .isNotEqualTo(
              Files.readAttributes(Path.of("/proc/self/ns/net"), BasicFileAttributes.class)
                  .fileKey());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static NetworkNamespace create() {
    try {
      // Away from Ctrl-C, which would end it before it has killed the others.
      Process first = new ProcessBuilder("setsid", "unshare", "--net", "sh", "-c", FIRST).start();
      assertThat(first.inputReader().readLine()).as("only root can do this").isEqualTo("ready");
      Path file = Path.of("/proc", Long.toString(first.pid()), "ns/net");
      return new NetworkNamespace(file, Optional.of(first));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The machine of an engine. It ends with the engine, and all that is in it too. */
  static NetworkNamespace of(Engine engine) {
    return new NetworkNamespace(engine.folder().resolve("netns"), Optional.empty());
  }

  /** A machine without any network but loopback. */
  static NetworkNamespace machine() {
    NetworkNamespace machine = create();
    machine.ip("link set lo up");
    return machine;
  }

  /** A switch, into which machines can be plugged. */
  static NetworkNamespace networkSwitch() {
    NetworkNamespace networkSwitch = create();
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
    networkSwitch.ip("link add " + port + " type veth peer name " + mine + " netns " + file);
    networkSwitch.ip("link set " + port + " master " + BRIDGE + " up");
    ip("address add " + address + " broadcast + dev " + mine);
    // Without IPv6, which would send something now and then.
    ip("link set " + mine + " addrgenmode none up");
    await().until(() -> ip("-o link show " + mine).contains("state UP"));
    cables.add(new Cable(networkSwitch, port));
    return this;
  }

  /** Pulls the cables out of their switches: nobody hears of this machine but itself. */
  void unplug() {
    cables.forEach(cable -> cable.set("down"));
  }

  /** Puts them back. */
  void replug() {
    cables.forEach(cable -> cable.set("up"));
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
    List<String> words = new ArrayList<>(List.of("nsenter", "--net=" + file));
    words.addAll(command);
    return words;
  }

  /** Ends all processes in it. */
  @Override
  public void close() {
    try {
      if (first.isPresent()) {
        first.get().getOutputStream().close();
        first.get().waitFor();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
