package berth.registry.web;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import java.util.ArrayList;
import java.util.List;

/** Reads events as a browser does, and fails if there is anything else between them. */
final class PageEvents {
  /** One event. */
  record PageEvent(String name, JsonElement data) {}

  private PageEvents() {}

  static List<PageEvent> read(String stream) {
    List<PageEvent> events = new ArrayList<>();
    String name = "";
    JsonElement data = null;
    for (String line : stream.split("\r\n|\r|\n", -1)) {
      if (line.startsWith("event: ")) {
        name = line.substring("event: ".length());
        assertThat(name).matches("[a-z]+");
      } else if (line.startsWith("data: ")) {
        assertThat(data).as("one line of data: %s", line).isNull();
        data = JsonParser.parseString(line.substring("data: ".length()));
      } else if (line.startsWith("id: ")) {
        Long.parseLong(line.substring("id: ".length()));
      } else {
        assertThat(line).isEmpty();
        if (data != null) {
          events.add(new PageEvent(name, data));
        }
        data = null;
      }
    }
    assertThat(data).as("the last event ends").isNull();
    return events;
  }
}
