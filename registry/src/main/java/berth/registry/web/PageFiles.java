package berth.registry.web;

import berth.http.HttpCall;
import berth.http.HttpReply;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/** The files of the page, which are part of the program. */
final class PageFiles {
  private static final Pattern NAME = Pattern.compile("[a-z][a-z0-9-]*\\.(html|js|css|svg)");
  private static final Map<String, String> TYPES =
      Map.of(
          "html", "text/html; charset=utf-8",
          "js", "text/javascript; charset=utf-8",
          "css", "text/css; charset=utf-8",
          "svg", "image/svg+xml");

  private record PageFile(byte[] content, String type, String tag) {}

  private final Map<String, PageFile> files = new ConcurrentHashMap<>();

  /** Answers with a file; only that it is the same as before if the caller has it. */
  void reply(HttpCall call, String name) {
    PageFile file = files.computeIfAbsent(name, PageFiles::read);
    // Asked for each time, so that a page never has files of two versions.
    Map<String, String> headers = Map.of("ETag", file.tag, "Cache-Control", "no-cache");
    boolean known = call.header("If-None-Match").filter(file.tag::equals).isPresent();
    call.reply(
        known
            ? new HttpReply(304, file.type, new byte[0], headers)
            : new HttpReply(200, file.type, file.content, headers));
  }

  private static PageFile read(String name) {
    if (!NAME.matcher(name).matches()) {
      throw noFile(name);
    }
    try (InputStream in = PageFiles.class.getResourceAsStream("page/" + name)) {
      if (in == null) {
        throw noFile(name);
      }
      byte[] content = in.readAllBytes();
      String type = TYPES.get(name.substring(name.lastIndexOf('.') + 1));
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(content);
      return new PageFile(content, type, '"' + HexFormat.of().formatHex(digest, 0, 12) + '"');
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  private static BerthException noFile(String name) {
    return new BerthException(Reason.NOT_FOUND, "the page has no file '" + name + "'");
  }
}
