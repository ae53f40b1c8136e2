/**
 * The page that shows all servers, and what it is fed with.
 *
 * <p>{@link berth.registry.web.RegistryPage} is the door. While somebody looks, {@code Wall} has a
 * stream from each server ({@code ServerClient}) and tells all who look, once a second, what has
 * changed; while nobody does, it only remembers who is there.
 */
package berth.registry.web;
