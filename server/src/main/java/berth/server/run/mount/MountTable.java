package berth.server.run.mount;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Where the folders of this machine are in its file systems, as the calling thread sees it. A
 * folder that is mounted twice has two paths, but is in one place. What is not on a disk but the
 * kernel's counts as one file system.
 */
public final class MountTable {
  private static final int DEVICE = 2;
  private static final int ROOT = 3;
  private static final int POINT = 4;
  private static final Pattern TYPE = Pattern.compile(" - (\\S+) ");
  private static final Set<String> KERNELS =
      Set.of(
          "proc",
          "sysfs",
          "devtmpfs",
          "devpts",
          "cgroup",
          "cgroup2",
          "debugfs",
          "tracefs",
          "securityfs",
          "configfs",
          "bpf",
          "efivarfs");

  /**
   * A place in a file system.
   *
   * @param path from its root, with a character for each byte
   */
  public record Place(String device, String path) {
    /** Whether it is the other place, or below it. */
    public boolean isIn(Place other) {
      return device.equals(other.device) && isBelow(path, other.path);
    }
  }

  private record Mount(Place root, String point) {
    Place placeOf(String path) {
      String inside = point.equals("/") ? path : path.substring(point.length());
      return new Place(
          root.device, root.path.equals("/") && !inside.isEmpty() ? inside : root.path + inside);
    }
  }

  private final List<Mount> mounts = new ArrayList<>();

  private MountTable(String mountinfo) {
    for (String line : mountinfo.split("\n")) {
      String[] fields = line.split(" ");
      // Namespaces are mounted too; their roots are no paths.
      if (fields.length > POINT && fields[ROOT].startsWith("/")) {
        mounts.add(
            new Mount(
                new Place(device(line, fields), MountPoints.unescape(fields[ROOT])),
                MountPoints.unescape(fields[POINT])));
      }
    }
  }

  // Each mount of them may be a device of its own, but shows the same.
  private static String device(String line, String[] fields) {
    Matcher type = TYPE.matcher(line);
    return type.find() && KERNELS.contains(type.group(1)) ? "kernel" : fields[DEVICE];
  }

  /** As it is now. Without a kernel that tells it, nothing is mounted. */
  public static MountTable read() {
    try {
      byte[] all = Files.readAllBytes(Path.of("/proc/thread-self/mountinfo"));
      return new MountTable(new String(all, StandardCharsets.ISO_8859_1));
    } catch (IOException e) {
      return new MountTable("");
    }
  }

  /**
   * What somebody sees who sees a folder: the folder's own place, which is the first, and those
   * that are mounted below it. None if nobody knows.
   *
   * @param folder absolute, without links
   */
  public List<Place> seenIn(Path folder) {
    String path = MountPoints.bytes(folder);
    List<Place> places = new ArrayList<>();
    Mount around = null;
    for (Mount mount : mounts) {
      // Of two at one point the later one is seen.
      if (isBelow(path, mount.point)
          && (around == null || mount.point.length() >= around.point.length())) {
        around = mount;
      }
    }
    if (around == null) {
      return List.of();
    }
    places.add(around.placeOf(path));
    for (Mount mount : mounts) {
      if (!mount.point.equals(path) && isBelow(mount.point, path)) {
        places.add(mount.root);
      }
    }
    return places;
  }

  private static boolean isBelow(String path, String folder) {
    return path.equals(folder) || folder.equals("/") || path.startsWith(folder + "/");
  }
}
