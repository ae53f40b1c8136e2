package berth.host.lock;

import com.sun.jna.LastErrorException;
import com.sun.jna.Memory;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;

/**
 * A wait for locks, in the kernel, that another thread can end. One thread waits at a time; any
 * thread may cancel, once and for all.
 *
 * <p>A thread in {@code fcntl} can be brought back only by a signal, so one without another use is
 * given a handler that does nothing and does not restart the call.
 */
public final class LockWait {
  // Above the two that libc keeps for itself and those that debuggers and JVMs like to use.
  private static final int SIGNAL = 40;
  private static final long RESEND_MILLIS = 2;

  static {
    installHandler();
  }

  private Pointer thread;
  private boolean cancelled;

  /**
   * Takes a lock as soon as nobody else holds one that is in its way. False if cancelled before
   * that.
   */
  boolean lock(int fd, short type, long start, long length) {
    synchronized (this) {
      if (cancelled) {
        return false;
      }
      thread = LibC.INSTANCE.pthread_self();
    }
    try {
      while (true) {
        try {
          LibC.INSTANCE.fcntl(fd, LibC.F_OFD_SETLKW, LibC.flock(type, start, length));
          return true;
        } catch (LastErrorException e) {
          if (e.getErrorCode() != LibC.EINTR) {
            throw e;
          }
          if (isCancelled()) {
            return false;
          }
        }
      }
    } finally {
      synchronized (this) {
        thread = null;
        notifyAll();
      }
    }
  }

  synchronized boolean isCancelled() {
    return cancelled;
  }

  /** Ends the present wait and every later one. Returns when nobody waits any more. */
  public void cancel() {
    boolean interrupted = false;
    synchronized (this) {
      cancelled = true;
      // A signal that arrives just before the call is lost, so it is sent until the thread is out.
      // The lock keeps the
      // thread from ending meanwhile.
      while (thread != null) {
        LibC.INSTANCE.pthread_kill(thread, SIGNAL);
        try {
          wait(RESEND_MILLIS);
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static void installHandler() {
    // struct sigaction: handler, 128 bytes of mask, flags (none: no SA_RESTART), restorer.
    Memory action = new Memory(160);
    action.clear();
    // Any harmless function of libc will do; code of the JVM must not run in a signal handler.
    action.setPointer(0, NativeLibrary.getInstance("c").getFunction("getppid"));
    LibC.INSTANCE.sigaction(SIGNAL, action, null);
  }
}
