package berth.client.call;

import static org.assertj.core.api.Assertions.assertThat;

import berth.v1.OutputStream;
import berth.v1.Reservation;
import berth.v1.ReservedGpu;
import berth.v1.RunEvent;
import berth.v1.RunExited;
import berth.v1.RunOutput;
import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RunLinesTest {
  private final List<String> out = new ArrayList<>();
  private final List<String> err = new ArrayList<>();
  private final RunLines lines = new RunLines(out::add, err::add);

  @Test
  void passesALineAsSoonAsItIsWhole() {
    print(OutputStream.OUTPUT_STREAM_STDOUT, "epoch 1\nepo");
    assertThat(out).containsExactly("epoch 1");

    print(OutputStream.OUTPUT_STREAM_STDOUT, "ch 2\n\nepoch 3\n");
    assertThat(out).containsExactly("epoch 1", "epoch 2", "", "epoch 3");
  }

  @Test
  void keepsTheTwoStreamsApart() {
    print(OutputStream.OUTPUT_STREAM_STDOUT, "one ");
    print(OutputStream.OUTPUT_STREAM_STDERR, "a warning\n");
    print(OutputStream.OUTPUT_STREAM_STDOUT, "line\n");

    assertThat(out).containsExactly("one line");
    assertThat(err).containsExactly("a warning");
  }

  @Test
  void passesTheLastLineAlsoWithoutItsEnd() {
    print(OutputStream.OUTPUT_STREAM_STDOUT, "accuracy 0.98");
    print(OutputStream.OUTPUT_STREAM_STDERR, "killed");
    exit(137);

    assertThat(out).containsExactly("accuracy 0.98");
    assertThat(err).containsExactly("killed");
  }

  @Test
  void passesNoLineThatWasNotThere() {
    print(OutputStream.OUTPUT_STREAM_STDOUT, "all\n");
    exit(0);

    assertThat(out).containsExactly("all");
    assertThat(err).isEmpty();
  }

  @Test
  void understandsACharacterThatComesInTwoPieces() {
    byte[] bytes = "71°C\n".getBytes(StandardCharsets.UTF_8);
    print(OutputStream.OUTPUT_STREAM_STDOUT, ByteString.copyFrom(bytes, 0, 3));
    print(OutputStream.OUTPUT_STREAM_STDOUT, ByteString.copyFrom(bytes, 3, bytes.length - 3));

    assertThat(out).containsExactly("71°C");
  }

  @Test
  void knowsTheGpusAndTheEnd() {
    assertThat(lines.exited()).isEqualTo(RunExited.getDefaultInstance());
    Reservation reservation =
        Reservation.newBuilder().addGpus(ReservedGpu.newBuilder().setIndex(2)).build();
    lines.accept(RunEvent.newBuilder().setReserved(reservation).build());
    exit(7);

    assertThat(lines.reserved()).isEqualTo(reservation);
    assertThat(lines.exited().getExitCode()).isEqualTo(7);
  }

  private void print(OutputStream stream, String text) {
    print(stream, ByteString.copyFromUtf8(text));
  }

  private void print(OutputStream stream, ByteString data) {
    RunOutput output = RunOutput.newBuilder().setStream(stream).setData(data).build();
    lines.accept(RunEvent.newBuilder().setOutput(output).build());
  }

  private void exit(int code) {
    lines.accept(RunEvent.newBuilder().setExited(RunExited.newBuilder().setExitCode(code)).build());
  }
}
