package berth.registry.web;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.function.Predicate;

/** Reads server-sent events, one after the other. */
final class Events implements AutoCloseable {
  /**
   * @param id empty if it has none
   */
  record Event(String name, String id, JsonObject data) {}

  private final BufferedReader lines;

  Events(InputStream stream) {
    lines = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8));
  }

  /** The next event; null at the end of the stream. */
  Event next() throws IOException {
    String name = "";
    String id = "";
    JsonObject data = null;
    for (String line; (line = lines.readLine()) != null; ) {
      if (line.startsWith("event: ")) {
        name = line.substring("event: ".length());
      } else if (line.startsWith("id: ")) {
        id = line.substring("id: ".length());
      } else if (line.startsWith("data: ")) {
        data = JsonParser.parseString(line.substring("data: ".length())).getAsJsonObject();
      } else if (line.isEmpty() && data != null) {
        return new Event(name, id, data);
      }
    }
    return null;
  }

  /** The first of the next events that is wanted. */
  JsonObject next(String name, Predicate<JsonObject> wanted) throws IOException {
    for (Event event; (event = next()) != null; ) {
      if (event.name.equals(name) && wanted.test(event.data)) {
        return event.data;
      }
    }
    throw new AssertionError("the stream has ended");
  }

  JsonObject next(String name) throws IOException {
    return next(name, data -> true);
  }

  /** How a server is as soon as it is as wanted. */
  JsonObject server(String server, Predicate<JsonObject> wanted) throws IOException {
    for (Event event; (event = next()) != null; ) {
      if (event.name.equals("servers")) {
        for (var element : event.data.getAsJsonArray("servers")) {
          JsonObject found = element.getAsJsonObject();
          if (found.get("name").getAsString().equals(server) && wanted.test(found)) {
            return found;
          }
        }
      }
    }
    throw new AssertionError("the stream has ended");
  }

  @Override
  public void close() throws IOException {
    lines.close();
  }
}
