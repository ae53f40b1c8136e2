/**
 * This server's presence in the registry: it registers, reports what changes, and leaves. {@link
 * berth.server.presence.Presence} is the only part that others need. Everything else of the server
 * works the same whether a registry answers or not.
 */
package berth.server.presence;
