/**
 * What the three commands share: their options from the command line and a YAML file, exit codes
 * and version.
 */
package berth.command;
