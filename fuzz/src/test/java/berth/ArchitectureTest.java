package berth;

import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.lang.ArchRule;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class ArchitectureTest {
  // One for all: it reads the jars of the class path once.
  private static final JavaCompiler COMPILER = ToolProvider.getSystemJavaCompiler();
  private static final StandardJavaFileManager FILES =
      COMPILER.getStandardFileManager(null, null, null);

  @TempDir private Path folder;

  @AfterAll
  static void closeFiles() throws IOException {
    FILES.close();
  }

  static List<ArchRule> rules() {
    return Architecture.RULES;
  }

  /** The classes of all modules. */
  private static final class Berth {
    static final JavaClasses CLASSES =
        new ClassFileImporter()
            .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
            .importPackages("berth");
  }

  @ParameterizedTest
  @MethodSource("rules")
  void everyClassKeepsTo(ArchRule rule) {
    assertThat(rule.evaluate(Berth.CLASSES).getFailureReport().getDetails()).isEmpty();
  }

  @Test
  void seesAllModules() {
    Set<String> names = Berth.CLASSES.stream().map(JavaClass::getName).collect(Collectors.toSet());
    assertThat(names)
        .contains(
            "berth.v1.Server",
            "berth.rpc.RpcServer",
            "berth.http.HttpServer",
            "berth.host.lock.Keeper",
            "berth.server.Main",
            "berth.registry.Main",
            "berth.client.Berth",
            "berth.cli.Main")
        .doesNotContain("berth.ArchitectureTest");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "berth.server.run.Sample: class Sample { io.grpc.Status status; }",
        "berth.server.run.Sample: class Sample { Object status = io.grpc.Status.OK; }",
        "berth.server.run.Sample: class Sample { void end(io.grpc.Status status) {} }",
        "berth.cli.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.client.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.registry.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.registry.web.Sample: class Sample { io.grpc.Channel channel; }",
        "berth.rpcs.Sample: class Sample { io.grpc.Channel channel; }",
        "berth.registry.web.Sample:"
            + " class Sample { io.netty.handler.codec.http.HttpRequest request; }",
        "berth.server.run.Sample: interface Sample extends com.sun.jna.Library {}",
        "berth.server.run.Sample: class Sample { com.github.dockerjava.api.DockerClient docker; }",
        "berth.server.Sample: class Sample { io.etcd.jetcd.Client etcd; }",
        "berth.server.run.Sample: class Sample { io.prometheus.metrics.core.metrics.Gauge gauge; }",
        "berth.command.Sample: class Sample { org.snakeyaml.engine.v2.api.Load load; }",
        "berth.rpc.Sample: class Sample { picocli.CommandLine line; }",
        "berth.server.run.SampleOptions: class SampleOptions { picocli.CommandLine line; }",
        "berth.server.Sample: class Sample { picocli.CommandLine line; }",
        "berth.server.Sample: class Sample { berth.client.Berth berth; }",
        "berth.server.Sample: class Sample { Object main = berth.registry.Main.class; }",
        "berth.registry.Sample: class Sample { Object main = berth.cli.Main.class; }",
        "berth.client.Sample: class Sample { Object main = berth.cli.Main.class; }",
        "berth.cli.Sample: class Sample { Object main = berth.server.Main.class; }",
        "berth.rpc.Sample: class Sample { Object main = berth.server.Main.class; }",
        "berth.client.spec.Sample: class Sample { berth.v1.Gpu gpu; }",
        "berth.server.util.Sample: class Sample {}",
        "berth.common.server.Sample: class Sample {}",
        "berth.server.RunsImpl: final class RunsImpl {}",
        "berth.server.Sample: class Sample { record RunManager(int a) {} }",
        "berth.server.Sample: class Sample { interface Helper {} }",
        "berth.a.Sample: public class Sample { berth.b.Other other; }"
            + " berth.b.Other: public class Other { berth.a.Sample sample; }",
        "berth.a.Sample: class Sample {} berth.b.Sample: class Sample {}",
      })
  void oneRuleFindsWhatBreaksIt(String sources) throws IOException {
    JavaClasses classes = compiled(sources);
    assertThat(Architecture.RULES)
        .filteredOn(rule -> rule.evaluate(classes).hasViolation())
        .as("rules that find it")
        .hasSize(1);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "berth.rpc.Sample: class Sample { io.grpc.Server server; }",
        "berth.v1.Sample: class Sample { io.grpc.Server server; }",
        "berth.server.gpu.SampleGrpcService: class SampleGrpcService { io.grpc.Status status; }",
        "berth.server.gpu.SampleGrpcService:"
            + " class SampleGrpcService { static class Inner { Object a = io.grpc.Status.OK; } }",
        "berth.client.call.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.server.presence.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.registry.web.SampleClient: class SampleClient { io.grpc.Channel channel; }",
        "berth.http.Sample: class Sample { io.netty.handler.codec.http.HttpRequest request; }",
        "berth.host.gpu.Sample: interface Sample extends com.sun.jna.Library {}",
        "berth.server.run.mount.Sample: interface Sample extends com.sun.jna.Library {}",
        "berth.server.run.docker.Sample:"
            + " class Sample { com.github.dockerjava.api.DockerClient docker; }",
        "berth.registry.directory.Sample: class Sample { io.etcd.jetcd.Client etcd; }",
        "berth.metrics.Sample: class Sample { io.prometheus.metrics.core.metrics.Gauge gauge; }",
        "berth.text.Sample: class Sample { org.snakeyaml.engine.v2.api.Load load; }",
        "berth.cli.Sample: class Sample { picocli.CommandLine line; berth.client.Berth berth; }",
        "berth.server.SampleOptions: class SampleOptions { picocli.CommandLine line; }",
        "berth.registry.SampleCommand: class SampleCommand { picocli.CommandLine line; }",
        "berth.server.Sample: class Sample { String name = \"io.grpc.Status Helper\"; }",
        "berth.a.Sample: public class Sample {}"
            + " berth.b.Other: public class Other { berth.a.Sample sample; }",
        "berth.a.Main: class Main {} berth.b.Main: class Main {}",
      })
  void noRuleFindsWhatIsAllowed(String sources) throws IOException {
    JavaClasses classes = compiled(sources);
    assertThat(Architecture.RULES)
        .filteredOn(rule -> rule.evaluate(classes).hasViolation())
        .isEmpty();
  }

  /** Any number of {@code PACKAGE.CLASS: SOURCE}. */
  private JavaClasses compiled(String sources) throws IOException {
    Path classes = Files.createDirectory(folder.resolve("classes"));
    List<Path> files = new ArrayList<>();
    for (String source : sources.split("(?<=\\}) (?=berth\\.[\\w.]+:)")) {
      String name = source.substring(0, source.indexOf(':'));
      int end = name.lastIndexOf('.');
      Path file =
          Files.createDirectories(folder.resolve(name.substring(0, end)))
              .resolve(name.substring(end + 1) + ".java");
      Files.writeString(
          file,
          "package " + name.substring(0, end) + ";\n" + source.substring(source.indexOf(':') + 1));
      files.add(file);
    }
    FILES.setLocationFromPaths(StandardLocation.CLASS_OUTPUT, List.of(classes));
    assertThat(
            COMPILER
                .getTask(
                    null,
                    FILES,
                    null,
                    List.of("-proc:none"),
                    null,
                    FILES.getJavaFileObjectsFromPaths(files))
                .call())
        .isTrue();
    return new ClassFileImporter().importPath(classes);
  }
}
