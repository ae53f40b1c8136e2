package berth.server.run.docker;

import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What becomes the program in a container: a shell that connects the program's output with the
 * run's pipes, and sees to it that a program is started once, however often its container is.
 *
 * @param busybox a shell of this machine that runs in every image; without one, the image's own is
 *     used
 */
record Launcher(Optional<Path> busybox) {
  static final String IO = "/berth";
  static final String MARK = "/berth/mark";

  /** Where a container sees the shell of this machine. */
  static final String BUSYBOX = "/berth-launcher/busybox";

  private static final String SCRIPT =
      "(set -C; : >/berth/mark/once) 2>/dev/null || exit 125;"
          + " exec \"$@\" </dev/null >/berth/stdout 2>/berth/stderr";

  static Launcher ofThisMachine() {
    for (String place : List.of("/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox")) {
      if (isStatic(Path.of(place))) {
        return new Launcher(Optional.of(Path.of(place)));
      }
    }
    return new Launcher(Optional.empty());
  }

  /** The container's entrypoint, to be followed by the program's words. */
  List<String> entrypoint() {
    List<String> words = new ArrayList<>();
    if (busybox.isPresent()) {
      words.addAll(List.of(BUSYBOX, "sh"));
    } else {
      words.add("/bin/sh");
    }
    words.addAll(List.of("-c", SCRIPT, "berth"));
    return words;
  }

  // One that needs libraries would find others in an image, or none.
  private static boolean isStatic(Path program) {
    try (InputStream in = Files.newInputStream(program)) {
      ByteBuffer head = ByteBuffer.wrap(in.readNBytes(4096)).order(ByteOrder.LITTLE_ENDIAN);
      if (head.limit() < 64 || head.getInt(0) != 0x464c457f || head.get(4) != 2) {
        return false;
      }
      int table = (int) head.getLong(32);
      int size = head.getShort(54);
      int entries = head.getShort(56);
      for (int i = 0; i < entries; i++) {
        if (head.getInt(table + i * size) == 3) {
          // The program header that names a loader of libraries.
          return false;
        }
      }
      return true;
    } catch (IOException | IndexOutOfBoundsException e) {
      return false;
    }
  }
}
