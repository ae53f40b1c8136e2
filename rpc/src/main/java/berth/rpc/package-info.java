/**
 * What every process needs to speak gRPC the same way: errors, replies, streams, servers and
 * channels.
 *
 * <p>gRPC's own types stay in this package, in the {@code *GrpcService} classes of the servers and
 * in the client proxies that mirror them. Everything else speaks of domain objects and {@link
 * berth.rpc.BerthException}.
 */
package berth.rpc;
