package berth.host.lock;

/** Something that is held by lock files, which others may remove or replace. */
public interface Guarded {
  /**
   * Locks the files anew that somebody removed or replaced meanwhile.
   *
   * @return false if something of it can no longer be locked
   */
  boolean lockReplaced();
}
