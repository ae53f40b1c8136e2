package berth.host.state;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.params.provider.MethodSource;

class RecordFileFuzzTest {
  private static final Path FILE = Path.of("record");

  static Stream<byte[]> seeds() throws IOException {
    byte[] content = "phase=QUEUED\n".getBytes(StandardCharsets.UTF_8);
    return Stream.of(content, RecordFile.encode(content), RecordFile.encode(new byte[0]));
  }

  @MethodSource("seeds")
  @FuzzTest
  void readsOnlyWhatWasWritten(byte[] data) throws Exception {
    assertThat(RecordFile.decode(FILE, RecordFile.encode(data))).isEqualTo(data);
    byte[] content;
    try {
      content = RecordFile.decode(FILE, data);
    } catch (DamagedFileException e) {
      return;
    }
    assertThat(Arrays.equals(RecordFile.encode(content), data)).isTrue();
  }
}
