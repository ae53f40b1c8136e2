/**
 * What programs ask for, {@link berth.client.spec.RunSpec} and {@link
 * berth.client.spec.ReservationSpec}, and the servers and GPUs that they can choose from. Values
 * without any type of the wire.
 */
package berth.client.spec;
