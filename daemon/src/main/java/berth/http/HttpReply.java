package berth.http;

import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * A whole answer. The body is not copied: nobody may change it afterwards.
 *
 * @param headers beyond those that every answer has
 */
public record HttpReply(int status, String contentType, byte[] body, Map<String, String> headers) {
  private static final String JSON = "application/json; charset=utf-8";

  public HttpReply {
    headers = Map.copyOf(headers);
  }

  public static HttpReply text(int status, String text) {
    return new HttpReply(
        status,
        "text/plain; charset=utf-8",
        (text + "\n").getBytes(StandardCharsets.UTF_8),
        Map.of());
  }

  /** An answer that is JSON already. */
  public static HttpReply json(String json) {
    return new HttpReply(200, JSON, json.getBytes(StandardCharsets.UTF_8), Map.of());
  }

  /** Says in one sentence what is wrong, for people and for programs. */
  static HttpReply error(int status, String sentence) {
    return new HttpReply(
        status,
        JSON,
        ("{\"error\":" + quoted(sentence) + "}").getBytes(StandardCharsets.UTF_8),
        Map.of());
  }

  private static String quoted(String text) {
    StringBuilder json = new StringBuilder("\"");
    text.chars()
        .forEach(
            c -> {
              if (c == '"' || c == '\\') {
                json.append('\\').append((char) c);
              } else if (c < ' ') {
                json.append(String.format("\\u%04x", c));
              } else {
                json.append((char) c);
              }
            });
    return json.append('"').toString();
  }
}
