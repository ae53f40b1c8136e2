package berth.cli;

import berth.rpc.PlainText;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.util.JsonFormat;

/**
 * The JSON that {@code --json} prints everywhere: protobuf's own form of a response, so that the
 * protos document it.
 */
final class JsonOutput {
  private static final JsonFormat.Printer PRINTER =
      JsonFormat.printer().omittingInsignificantWhitespace().alwaysPrintFieldsWithNoPresence();

  private JsonOutput() {}

  static String line(MessageOrBuilder response) {
    try {
      // Protobuf leaves some of what a terminal obeys as it is.
      return PlainText.escape(PRINTER.print(response));
    } catch (InvalidProtocolBufferException e) {
      throw new AssertionError("a response without Any fields always prints", e);
    }
  }
}
