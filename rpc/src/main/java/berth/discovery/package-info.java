/**
 * Finding registries on the local network by UDP: the seeker, and the rules of the datagrams that
 * it and the registries keep. The format is that of {@code DiscoveryQuery} and {@code
 * DiscoveryAnswer} in registry.proto.
 */
package berth.discovery;
