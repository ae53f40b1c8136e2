/** The {@code berth} command: one class per subcommand, on the client library alone. */
package berth.cli;
