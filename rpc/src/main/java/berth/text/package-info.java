/**
 * What people write in files and on command lines: values with units, and YAML whose mistakes are
 * reported with file, line and key.
 */
package berth.text;
