/**
 * Reservations of this machine's GPUs and ports: {@link berth.server.reservation.Reservations}
 * knows who holds what for how long, {@code WaitingLine} who waits for it, and {@link
 * berth.server.reservation.ReservationGrpcService} is its wire. The locks are those of {@link
 * berth.host.lock}.
 */
package berth.server.reservation;
