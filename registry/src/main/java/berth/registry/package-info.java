/**
 * The registry: the process that will know all servers. So far it answers health checks and
 * reflection only.
 */
package berth.registry;
