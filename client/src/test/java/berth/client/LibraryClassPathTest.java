package berth.client;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What a program gets that has the library as its only dependency. */
class LibraryClassPathTest {
  private static final Set<String> PARSERS =
      Set.of(
          "com.google.code.gson:gson",
          "org.snakeyaml:snakeyaml-engine",
          "org.apache.commons:commons-compress",
          "org.apache.commons:commons-lang3",
          "commons-codec:commons-codec",
          "commons-io:commons-io");

  // gRPC's Netty speaks HTTP/2 with classes of netty-codec-http, and through proxies.
  private static final List<String> GRPC_AND_ITS_OWN =
      List.of(
          "io.grpc:",
          "io.netty:",
          "io.perfmark:",
          "com.google.protobuf:",
          "com.google.api.grpc:",
          "com.google.guava:",
          "com.google.android:annotations",
          "com.google.code.findbugs:",
          "com.google.errorprone:error_prone_annotations",
          "com.google.j2objc:",
          "org.codehaus.mojo:animal-sniffer-annotations",
          "org.jspecify:");

  @Test
  void hasGrpcAndAFewParsersAlone() throws IOException {
    Set<String> others =
        libraries().stream()
            .filter(name -> GRPC_AND_ITS_OWN.stream().noneMatch(name::startsWith))
            .filter(name -> !PARSERS.contains(name))
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(others)
        .containsExactly("berth:berth-proto", "berth:berth-rpc", "org.slf4j:slf4j-api");
  }

  @Test
  void hasNothingOfNettyThatGrpcDoesNotBring() throws IOException {
    assertThat(libraries())
        .filteredOn(name -> name.startsWith("io.netty:"))
        .containsExactlyInAnyOrder(
            "io.netty:netty-buffer",
            "io.netty:netty-codec-base",
            "io.netty:netty-codec-compression",
            "io.netty:netty-codec-http",
            "io.netty:netty-codec-http2",
            "io.netty:netty-codec-socks",
            "io.netty:netty-common",
            "io.netty:netty-handler",
            "io.netty:netty-handler-proxy",
            "io.netty:netty-resolver",
            "io.netty:netty-transport",
            "io.netty:netty-transport-native-unix-common");
  }

  private static List<String> libraries() throws IOException {
    return Files.readAllLines(Path.of(System.getProperty("berth.libraryClassPath")));
  }
}
