package berth.client.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import berth.client.call.RegistryClient;
import berth.rpc.Address;
import berth.rpc.SealedMessage;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a supervisor keeps on disk, of a cluster whose package is empty: it ends at once. */
class SupervisedClusterTest {
  @TempDir private Path folder;
  private Path state;
  private final List<String> flushed = new ArrayList<>();

  @BeforeEach
  void submit() throws IOException {
    state = Files.createDirectory(folder.resolve("state"));
    Path input = Files.createDirectory(folder.resolve("input"));
    Files.createDirectory(input.resolve("package"));
    Files.write(
        input.resolve("submitted"),
        SealedMessage.seal(ClusterStatus.newBuilder().setName("line").build()));
  }

  @Test
  void aStatusIsOnDiskBeforeItHasItsNameAndThenItsNameIs() throws Exception {
    carryOut(this::note);

    assertThat(flushed)
        .containsExactly(
            "status.new CLUSTER_PHASE_ENDED, status missing",
            "state: status.new missing, status CLUSTER_PHASE_ENDED");
  }

  @Test
  void aStatusWhoseNameMayBeLostIsNotSaved() {
    assertThatThrownBy(
            () ->
                carryOut(
                    path -> {
                      if (path.equals(state)) {
                        throw new IOException("the disk is gone");
                      }
                    }))
        .isInstanceOf(IOException.class)
        .hasMessage("the disk is gone");
  }

  @Test
  void aStatusThatIsNotOnDiskDoesNotReplaceTheOlderOne() throws Exception {
    assertThatThrownBy(
            () ->
                carryOut(
                    path -> {
                      throw new IOException("the disk is gone");
                    }))
        .hasMessage("the disk is gone");
    assertThat(state.resolve("status")).doesNotExist();

    carryOut(this::note);
    assertThat(phase("status")).isEqualTo(ClusterPhase.CLUSTER_PHASE_ENDED.name());
  }

  private void carryOut(SupervisedCluster.Flush flush) throws Exception {
    // Who is never called.
    try (RegistryClient registry = RegistryClient.of(List.of(new Address("127.0.0.1", 1)))) {
      new SupervisedCluster(folder, flush).carryOut(registry, note -> {});
    }
  }

  private void note(Path path) throws IOException {
    flushed.add(
        path.equals(state)
            ? "state: status.new " + phase("status.new") + ", status " + phase("status")
            : path.getFileName() + " " + phase("status.new") + ", status " + phase("status"));
  }

  private String phase(String name) throws IOException {
    Path file = state.resolve(name);
    return Files.exists(file)
        ? SealedMessage.open(Files.readAllBytes(file), ClusterStatus.parser()).getPhase().name()
        : "missing";
  }
}
