package berth.http;

import io.netty.handler.codec.http.HttpMethod;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Which calls go to which handler: {@code {name}} in a path stands for one part of it. */
record Route(HttpMethod method, List<String> path, HttpHandler handler, boolean isVital) {
  static Route of(HttpMethod method, String path, HttpHandler handler) {
    return new Route(method, parts(path), handler, false);
  }

  static Route vital(String path, HttpHandler handler) {
    return new Route(HttpMethod.GET, parts(path), handler, true);
  }

  static List<String> parts(String path) {
    return List.of(path.substring(1).split("/", -1));
  }

  /** The parameters, if the path is of this route. */
  Optional<Map<String, String>> match(List<String> asked) {
    if (asked.size() != path.size()) {
      return Optional.empty();
    }
    Map<String, String> parameters = new HashMap<>();
    for (int i = 0; i < path.size(); i++) {
      String part = path.get(i);
      if (part.startsWith("{")) {
        parameters.put(part.substring(1, part.length() - 1), asked.get(i));
      } else if (!part.equals(asked.get(i))) {
        return Optional.empty();
      }
    }
    return Optional.of(parameters);
  }
}
