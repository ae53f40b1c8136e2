package berth;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ArchitectureTest {
  @Test
  void everyFileKeepsToTheArchitecture() throws IOException {
    List<SourceFile> files = sourceFiles();
    assertThat(files)
        .extracting(SourceFile::path)
        .contains("proto/src/main/java/berth/rpc/RpcServer.java");
    assertThat(files).flatExtracting(Architecture::violations).isEmpty();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "server | berth.server.run | Runs.java | import io.grpc.Status;",
        "server | berth.server.run | Runs.java | import static io.grpc.Status.OK;",
        "server | berth.server.run | Runs.java | void end(io.grpc.Status status) {}",
        "client | berth.cli | RunClient.java | import io.grpc.Channel;",
        "registry | berth.registry | RegistryClient.java | import io.grpc.Channel;",
        "proto | berth.rpcs | Server.java | import io.grpc.Server;",
        "registry | berth.registry.web | Wall.java | import io.grpc.Channel;",
        "registry | berth.registry.web | Wall.java | import io.netty.handler.codec.http.Cookie;",
        "server | berth.server.run | Locks.java | import com.sun.jna.Library;",
        "server | berth.server.run | Containers.java | import com.github.dockerjava.api.*;",
        "server | berth.server | Main.java | import io.etcd.jetcd.Client;",
        "server | berth.server.run | Runs.java | import io.prometheus.metrics.core.metrics.*;",
        "server | berth.server | Main.java | import berth.client.GpuClient;",
        "server | berth.server | Main.java | import berth.registry.Main;",
        "registry | berth.registry | Main.java | import berth.cli.Main;",
        "client | berth.cli | Main.java | new berth.server.Main().run();",
        "proto | berth.rpc | RpcServer.java | import berth.server.Main;",
        "server | berth.server.util | Text.java | class Text {}",
        "server | berth.common.server | Text.java | class Text {}",
        "server | berth.server | RunsImpl.java | final class RunsImpl {}",
        "server | berth.server | Runs.java | record RunManager(int a) {}",
        "server | berth.server | Runs.java | interface Helper {}",
      })
  void findsWhatBreaksARule(String module, String packageName, String fileName, String line) {
    assertThat(Architecture.violations(file(module, packageName, fileName, line)))
        .singleElement()
        .asString()
        .contains(fileName);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "proto | berth.rpc | RpcServer.java | import io.grpc.Server;",
        "server | berth.server.gpu | GpuGrpcService.java | import io.grpc.stub.StreamObserver;",
        "client | berth.client | GpuClient.java | import io.grpc.Channel;",
        "server | berth.server.presence | PresenceClient.java | import io.grpc.Channel;",
        "registry | berth.registry.web | ServerClient.java | import io.grpc.Channel;",
        "proto | berth.http | HttpServer.java | import io.netty.handler.codec.http.Cookie;",
        "server | berth.server.gpu.nvml | Nvml.java | import com.sun.jna.Library;",
        "server | berth.server.reservation | LockFile.java | import com.sun.jna.Native;",
        "server | berth.server.run.docker | Docker.java | import com.github.dockerjava.api.*;",
        "registry | berth.registry.directory | EtcdDirectory.java | import io.etcd.jetcd.Client;",
        "proto | berth.metrics | Metrics.java | import io.prometheus.metrics.core.metrics.*;",
        "client | berth.cli | Main.java | import berth.client.GpuClient;",
        "server | berth.server | Main.java | import java.util.List;",
        "server | berth.server | Main.java | // not io.grpc.Status",
        "server | berth.server | Main.java | /** {@link io.grpc.Status} */",
        "server | berth.server | Main.java | log(\"io.grpc.Status class Helper\");",
        "server | berth.server | Main.java | new HealthStatusManager();",
      })
  void leavesAloneWhatIsAllowed(String module, String packageName, String fileName, String line) {
    assertThat(Architecture.violations(file(module, packageName, fileName, line))).isEmpty();
  }

  private static SourceFile file(String module, String packageName, String fileName, String line) {
    String path = module + "/src/main/java/" + packageName.replace('.', '/') + "/" + fileName;
    return new SourceFile(path, "package " + packageName + ";\n\n" + line + "\n");
  }

  private static List<SourceFile> sourceFiles() throws IOException {
    Path root = Path.of(System.getProperty("berth.root"));
    List<Path> paths = new ArrayList<>();
    for (File module : root.toFile().listFiles()) {
      Path sources = module.toPath().resolve("src/main/java");
      if (Files.isDirectory(sources)) {
        try (Stream<Path> below = Files.walk(sources)) {
          below.filter(path -> path.toString().endsWith(".java")).forEach(paths::add);
        }
      }
    }
    List<SourceFile> files = new ArrayList<>();
    for (Path path : paths) {
      files.add(new SourceFile(root.relativize(path).toString(), Files.readString(path)));
    }
    return files;
  }
}
