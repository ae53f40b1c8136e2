/**
 * Who is there. {@link berth.registry.directory.Directory} is where servers make themselves known,
 * with one implementation for each store; {@link berth.registry.directory.Roster} is what is known,
 * and the same for all of them.
 *
 * <p>What is kept here is what the wire contract says, so its messages are used as they are.
 */
package berth.registry.directory;
