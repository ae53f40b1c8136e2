package berth.server.run.mount;

import com.sun.jna.LastErrorException;
import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLong;
import com.sun.jna.Pointer;

/**
 * The part of libc that mounts need, under its C names. A call throws {@link LastErrorException}
 * with errno where C would return -1. Holds no logic; see {@link RunMounts}.
 */
interface MountCalls extends Library {
  MountCalls INSTANCE = Native.load("c", MountCalls.class);

  int EPERM = 1;
  int ENOENT = 2;
  int EACCES = 13;
  int ENOTDIR = 20;
  int EINVAL = 22;
  int ENOSYS = 38;
  int ELOOP = 40;

  int O_RDONLY = 0;
  int O_CLOEXEC = 02000000;
  int O_PATH = 010000000;
  // These two have other numbers on ARM.
  int O_DIRECTORY = System.getProperty("os.arch").matches("aarch64|arm") ? 040000 : 0200000;
  int O_NOFOLLOW = System.getProperty("os.arch").matches("aarch64|arm") ? 0100000 : 0400000;

  int MS_NOSUID = 2;
  int MS_NODEV = 4;
  int MS_NOEXEC = 8;
  int MS_BIND = 4096;
  int MS_REC = 16384;
  int MS_PRIVATE = 1 << 18;

  int MNT_DETACH = 2;
  int UMOUNT_NOFOLLOW = 8;

  int CLONE_FS = 0x200;
  int CLONE_NEWNS = 0x20000;

  int open(String path, int flags) throws LastErrorException;

  int openat(int folder, String name, int flags) throws LastErrorException;

  int openat(int folder, byte[] name, int flags) throws LastErrorException;

  int close(int fd) throws LastErrorException;

  int mkdir(String path, int mode) throws LastErrorException;

  int mount(String source, String target, String type, NativeLong flags, String data)
      throws LastErrorException;

  int umount2(String target, int flags) throws LastErrorException;

  int unshare(int flags) throws LastErrorException;

  int setns(int fd, int type) throws LastErrorException;

  // libc has a name for it only since glibc 2.36.
  int SYS_mount_setattr = 442;
  int AT_FDCWD = -100;
  int AT_RECURSIVE = 0x8000;
  long MOUNT_ATTR_RDONLY = 1;

  NativeLong syscall(
      NativeLong number,
      NativeLong folder,
      String path,
      NativeLong flags,
      Pointer attributes,
      NativeLong size)
      throws LastErrorException;
}
