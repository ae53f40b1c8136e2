package berth.server.run;

import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

/** The nine bits rwxrwxrwx as a number, which tars have, and as a set, which Java has. */
final class Permissions {
  private static final PosixFilePermission[] ALL = PosixFilePermission.values();

  private Permissions() {}

  static Set<PosixFilePermission> of(int mode) {
    Set<PosixFilePermission> permissions = EnumSet.noneOf(PosixFilePermission.class);
    for (PosixFilePermission permission : ALL) {
      if ((mode & bit(permission)) != 0) {
        permissions.add(permission);
      }
    }
    return permissions;
  }

  static int mode(Set<PosixFilePermission> permissions) {
    return permissions.stream().mapToInt(Permissions::bit).sum();
  }

  /** Java declares them in the order of the bits. */
  private static int bit(PosixFilePermission permission) {
    return 1 << ALL.length - 1 - permission.ordinal();
  }
}
