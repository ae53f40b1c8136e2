/**
 * The file locks by which GPUs and ports of this machine are held.
 *
 * <p>From the kernel upwards: {@link berth.host.lock.LibC} is what we call of libc, {@link
 * berth.host.lock.LockFile} a lock on a file, {@link berth.host.lock.LockFolder} the lock files
 * that all processes of the machine share, {@link berth.host.lock.TicketQueue} the queue of Berth's
 * processes, {@link berth.host.lock.Claim} the taking of locks for one request, and {@link
 * berth.host.lock.Keeper} the process that holds them when the one that took them is gone.
 */
package berth.host.lock;
