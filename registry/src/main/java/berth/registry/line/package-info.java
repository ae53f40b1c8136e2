/** The line of those who want to reserve on several servers at once. */
package berth.registry.line;
