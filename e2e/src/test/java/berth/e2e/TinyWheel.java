package berth.e2e;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

/** The smallest package of Python that there is, {@code tiny}, with a module and a command. */
final class TinyWheel {
  private TinyWheel() {}

  /** Writes it into a folder. */
  static Path in(Path project) throws IOException {
    Path wheel = project.resolve("tiny-1.0-py3-none-any.whl");
    String info = "tiny-1.0.dist-info/";
    try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(wheel))) {
      add(zip, "tiny.py", "WORD = 'berth'\ndef main():\n    print(WORD)\n");
      add(zip, info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n");
      add(
          zip,
          info + "WHEEL",
          "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
      add(zip, info + "entry_points.txt", "[console_scripts]\ntiny-word = tiny:main\n");
      add(
          zip,
          info + "RECORD",
          "tiny.py,,\n%1$sMETADATA,,\n%1$sWHEEL,,\n%1$sentry_points.txt,,\n%1$sRECORD,,\n"
              .formatted(info));
    }
    return wheel;
  }

  private static void add(ZipOutputStream zip, String name, String content) throws IOException {
    zip.putNextEntry(new ZipEntry(name));
    zip.write(content.getBytes(StandardCharsets.UTF_8));
  }
}
