package berth.discovery;

import berth.rpc.Address;

/**
 * A registry that answered.
 *
 * @param address where to call it
 * @param name what people call it
 */
public record FoundRegistry(Address address, String name) {}
