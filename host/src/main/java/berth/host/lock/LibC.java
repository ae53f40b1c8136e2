package berth.host.lock;

import com.sun.jna.LastErrorException;
import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLong;
import com.sun.jna.Pointer;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.IntByReference;

/**
 * The part of libc that we call, under its C names; the numbers are Linux's. A call that declares
 * {@link LastErrorException} throws it with errno where C would return -1.
 */
public interface LibC extends Library {
  LibC INSTANCE = Native.load("c", LibC.class);

  int EINTR = 4;
  int EAGAIN = 11;
  int EACCES = 13;
  int EEXIST = 17;
  int ENOENT = 2;
  int ENOSPC = 28;
  int EROFS = 30;

  int O_RDONLY = 0;
  int O_RDWR = 02;
  int O_CREAT = 0100;
  int O_EXCL = 0200;
  int O_NONBLOCK = 04000;
  // Has another number on ARM.
  int O_NOFOLLOW = System.getProperty("os.arch").matches("aarch64|arm") ? 0100000 : 0400000;
  int O_CLOEXEC = 02000000;

  int F_SETFD = 2;
  int FD_CLOEXEC = 1;
  int F_OFD_GETLK = 36;
  int F_OFD_SETLK = 37;
  int F_OFD_SETLKW = 38;
  short F_RDLCK = 0;
  short F_WRLCK = 1;
  short F_UNLCK = 2;

  int SIG_SETMASK = 2;
  int SIGTERM = 15;
  int SIGKILL = 9;

  int POLLIN = 1;
  int WNOHANG = 1;

  short POSIX_SPAWN_SETSIGDEF = 0x04;
  short POSIX_SPAWN_SETSIGMASK = 0x08;
  short POSIX_SPAWN_SETSID = 0x80;

  int open(String path, int flags, int mode) throws LastErrorException;

  int close(int fd) throws LastErrorException;

  int fchmod(int fd, int mode) throws LastErrorException;

  int ftruncate(int fd, NativeLong length) throws LastErrorException;

  NativeLong pread(int fd, byte[] buffer, NativeLong count, NativeLong offset)
      throws LastErrorException;

  NativeLong pwrite(int fd, byte[] buffer, NativeLong count, NativeLong offset)
      throws LastErrorException;

  NativeLong write(int fd, byte[] buffer, NativeLong count) throws LastErrorException;

  int pipe2(int[] fds, int flags) throws LastErrorException;

  int fcntl(int fd, int command, Pointer flock) throws LastErrorException;

  int fcntl(int fd, int command, int flags) throws LastErrorException;

  Pointer pthread_self();

  int pthread_kill(Pointer thread, int signal);

  int pthread_sigmask(int how, Pointer set, Pointer old);

  int sigaction(int signal, Pointer action, Pointer old) throws LastErrorException;

  int kill(int pid, int signal) throws LastErrorException;

  int poll(Pointer fds, NativeLong count, int timeoutMillis) throws LastErrorException;

  int waitpid(int pid, IntByReference status, int options) throws LastErrorException;

  int execve(String path, StringArray argv, StringArray environment) throws LastErrorException;

  int SYS_pidfd_open = 434;
  int SYS_pidfd_getfd = 438;

  NativeLong syscall(NativeLong number, NativeLong a, NativeLong b, NativeLong c)
      throws LastErrorException;

  int posix_spawn(
      IntByReference pid,
      String path,
      Pointer fileActions,
      Pointer attributes,
      StringArray argv,
      StringArray environment);

  int posix_spawn_file_actions_init(Pointer fileActions);

  int posix_spawn_file_actions_addclose(Pointer actions, int descriptor);

  int posix_spawn_file_actions_adddup2(Pointer fileActions, int fd, int newFd);

  int posix_spawn_file_actions_addopen(
      Pointer fileActions, int fd, String path, int flags, int mode);

  int posix_spawn_file_actions_destroy(Pointer fileActions);

  int posix_spawnattr_init(Pointer attributes);

  int posix_spawnattr_setflags(Pointer attributes, short flags);

  int posix_spawnattr_setsigdefault(Pointer attributes, Pointer set);

  int posix_spawnattr_setsigmask(Pointer attributes, Pointer set);

  int posix_spawnattr_destroy(Pointer attributes);

  /**
   * A {@code struct flock} for a range of a file; length 0 reaches to the end of every possible
   * file.
   */
  static Memory flock(short type, long start, long length) {
    Memory flock = new Memory(32);
    flock.clear();
    flock.setShort(0, type);
    flock.setLong(8, start);
    flock.setLong(16, length);
    return flock;
  }
}
