package berth.e2e.clusters;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import berth.client.call.Bundle;
import berth.client.call.ClusterClient;
import berth.client.call.ThisUser;
import berth.client.cluster.ClusterRequest;
import berth.client.cluster.PackedRequest;
import berth.e2e.fixture.Daemon;
import berth.e2e.fixture.Heard;
import berth.e2e.fixture.RunServer;
import berth.rpc.Address;
import berth.rpc.BerthException;
import berth.v1.ClusterOutcome;
import berth.v1.ClusterPhase;
import berth.v1.ClusterStatus;
import berth.v1.StartClusterRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Packages of clusters that no client of ours makes, given to an installed {@code berthd}, whose
 * supervisors would have to do what these say.
 */
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class HostilePackagesTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  @TempDir private Path folder;
  @TempDir private Path packed;
  @TempDir private Path outside;
  private Daemon registry;
  private RunServer server;
  private ClusterClient clusters;

  @BeforeEach
  void start() throws IOException {
    registry = Daemon.start(folder, "berth-registry");
    server =
        new RunServer(
            Files.createDirectory(folder.resolve("gpu1")),
            "--name",
            "gpu1",
            "--runtime",
            "process",
            "--allow-root",
            "--simulate-gpus",
            "1",
            "--registry",
            registry.address());
    clusters = ClusterClient.of(Address.parse(server.daemon().address(), 0));
  }

  @AfterEach
  void stop() {
    clusters.close();
    server.close();
    registry.close();
  }

  @Test
  void aScriptOutsideOfThePackageIsNotSent() throws IOException {
    Path secret = outside.resolve("secret.sh");
    Files.createFile(
        secret, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    Files.writeString(secret, "root:only-for-root");
    PackedRequest.write(
        ClusterRequest.named("reads")
            .all(task -> task.script(script(), "x").interpreter(List.of("cat")))
            .task("worker", 1, worker -> {})
            .build(),
        packed);
    rewrite("script-0/train.sh", secret.toString());

    ClusterStatus end = ended(start("reads"));

    assertThat(output(end)).doesNotContain("only-for-root");
    assertThat(end.getOutcome()).isEqualTo(ClusterOutcome.CLUSTER_OUTCOME_FAILED);
    assertThat(end.getWhy()).contains("the package names the file '" + secret + "'");
  }

  @Test
  void nothingIsUnpackedOutsideOfTheClustersFolder() throws IOException {
    Path files = Files.createDirectory(outside.resolve("files"));
    Files.writeString(files.resolve("authorized_keys"), "ours");
    Path target = folder.resolve("gpu1/state/pwned.d");
    PackedRequest.write(
        ClusterRequest.named("writes")
            .task("worker", 1, worker -> worker.files(folder.resolve("gpu1/locks")).command("true"))
            .task("ps", 1, ps -> ps.files(files).command("true"))
            .build(),
        packed);
    // The first makes the folder d beside the package, from which the second leads up to STATE.
    Path deep = Files.createDirectories(packed.resolve("p/q/r/s"));
    Files.move(packed.resolve("files-0.tar"), deep.resolve("files-0.tar"));
    Files.move(packed.resolve("files-1.tar"), packed.resolve("pwned.d"));
    Files.createSymbolicLink(packed.resolve("d"), packed.relativize(deep));
    rewrite("files-0.tar", "d/files-0.tar");
    rewrite("files-1.tar", "d/../../../../pwned.d");

    try {
      String id = start("writes");
      await().atMost(PATIENCE).until(() -> Files.exists(target) || isEnded(id));
    } catch (BerthException e) {
      assertThat(e).hasMessageContaining("is not the package of a cluster");
    }
    assertThat(target).doesNotExist();
  }

  @Test
  void aPackageWithALinkIsRefusedAtOnce() throws IOException {
    PackedRequest.write(
        ClusterRequest.named("links")
            .all(task -> task.script(script(), "x"))
            .task("worker", 1, worker -> {})
            .build(),
        packed);
    Path script = packed.resolve("script-0/train.sh");
    Files.delete(script);
    Files.createSymbolicLink(script, Path.of("../cluster.json"));

    assertThatThrownBy(() -> start("links"))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("script-0/train.sh is a link");
    assertThat(clusters.list(PATIENCE).getClustersList()).isEmpty();
  }

  private String script() {
    try {
      return Files.writeString(outside.resolve("train.sh"), "echo harmless\n").toString();
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private void rewrite(String from, String to) throws IOException {
    Path json = packed.resolve("cluster.json");
    String text = Files.readString(json);
    assertThat(text).contains('"' + from + '"');
    Files.writeString(json, text.replace('"' + from + '"', '"' + to + '"'));
  }

  private String start(String name) throws IOException {
    try (Bundle bundle = new Bundle(packed)) {
      return clusters
          .start(
              StartClusterRequest.newBuilder()
                  .setName(name)
                  .setOwner(ThisUser.owner())
                  .setBundle(bundle.upload(server.runs(), PATIENCE))
                  .build(),
              PATIENCE)
          .getClusterId();
    }
  }

  private ClusterStatus ended(String id) {
    return await()
        .atMost(PATIENCE)
        .until(
            () -> clusters.get(id, PATIENCE),
            status -> status.getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED);
  }

  private boolean isEnded(String id) {
    return clusters.get(id, PATIENCE).getPhase() == ClusterPhase.CLUSTER_PHASE_ENDED;
  }

  private String output(ClusterStatus status) {
    StringBuilder all = new StringBuilder();
    status.getTasksList().stream()
        .flatMap(task -> task.getAttemptsList().stream())
        .filter(attempt -> !attempt.getRunId().isEmpty())
        .forEach(
            attempt -> {
              Heard heard = server.attach(attempt.getRunId(), 0);
              heard.exited();
              all.append(heard.outText());
            });
    return all.toString();
  }
}
