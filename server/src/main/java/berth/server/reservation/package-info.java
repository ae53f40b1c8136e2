/**
 * Reservations of this machine's GPUs and ports, held by file locks.
 *
 * <p>From the kernel upwards: {@link berth.server.reservation.LibC} is what we call of libc, {@code
 * LockFile} a lock on a file, {@code LockFolder} the lock files that all processes of the machine
 * share, {@code TicketQueue} the line in which Berth's processes stand, {@code Claim} the taking of
 * locks for one request, {@code Reservations} who holds what for how long, and {@link
 * berth.server.reservation.ReservationGrpcService} its wire.
 */
package berth.server.reservation;
