/**
 * Mounts of folders for containers: what was checked is opened once, without following links, and
 * is what the engine gets to see.
 */
package berth.server.run.mount;
