package berth.v1;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class ProtoCommentsTest {
  @Test
  void everythingInTheContractHasAComment() throws IOException {
    assertThat(contract()).isNotEmpty();
    assertThat(contract()).flatExtracting(ProtoComments::missingIn).isEmpty();
  }

  @Test
  void namesEveryKindOfDefinitionWithoutComment() throws IOException {
    FileDescriptorProto gpu =
        contract().stream().filter(file -> file.getName().endsWith("gpu.proto")).findAny().get();

    assertThat(ProtoComments.missingIn(gpu.toBuilder().clearSourceCodeInfo().build()))
        .contains(
            "berth.v1.GpuService",
            "berth.v1.GpuService.ListGpus",
            "berth.v1.GpuReport",
            "berth.v1.GpuReport.driver_version",
            "berth.v1.WatchGpusResponse.event",
            "berth.v1.MigMode",
            "berth.v1.MigMode.MIG_MODE_ENABLED")
        .doesNotContain("berth.v1.GpuReport._driver_version");
  }

  private static List<FileDescriptorProto> contract() throws IOException {
    Path descriptors =
        Path.of(
            System.getProperty("berth.root"),
            "proto/build/generated/resources/berth/v1/descriptors.pb");
    try (var in = Files.newInputStream(descriptors)) {
      return FileDescriptorSet.parseFrom(in).getFileList().stream()
          .filter(file -> file.getPackage().equals("berth.v1"))
          .toList();
    }
  }
}
