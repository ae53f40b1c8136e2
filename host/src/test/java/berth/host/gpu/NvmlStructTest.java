package berth.host.gpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Named.named;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.sun.jna.Structure;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class NvmlStructTest {
  // As nvml.h has them on every 64-bit Linux.
  static Stream<Arguments> sizes() {
    return Stream.of(
        arguments(named("nvmlPciInfo_t", new NvmlLibrary.NvmlPciInfo()), 68),
        arguments(named("nvmlPciInfo_v2_t", new NvmlLibrary.NvmlPciInfoV2()), 52),
        arguments(named("nvmlMemory_t", new NvmlLibrary.NvmlMemory()), 24),
        arguments(named("nvmlMemory_v2_t", new NvmlLibrary.NvmlMemoryV2()), 40),
        arguments(named("nvmlUtilization_t", new NvmlLibrary.NvmlUtilization()), 8),
        arguments(named("nvmlProcessInfo_v1_t", new NvmlLibrary.NvmlProcessInfoV1()), 16),
        arguments(named("nvmlProcessInfo_t", new NvmlLibrary.NvmlProcessInfo()), 24),
        arguments(named("nvmlFieldValue_t", new NvmlLibrary.NvmlFieldValue()), 40),
        arguments(named("nvmlEventData_t", new NvmlLibrary.NvmlEventData()), 32));
  }

  @ParameterizedTest
  @MethodSource("sizes")
  void everyStructureHasTheSizeThatTheDriverExpects(Structure structure, int bytes) {
    assertThat(structure.size()).isEqualTo(bytes);
  }

  @Test
  void theSecondMemoryStructureCarriesItsOwnSizeAndVersion() {
    var memory = new NvmlLibrary.NvmlMemoryV2();
    assertThat(memory.version).isEqualTo(memory.size() | 2 << 24);
    memory.write();
    assertThat(memory.getPointer().getInt(0)).isEqualTo(0x02000028);
  }
}
