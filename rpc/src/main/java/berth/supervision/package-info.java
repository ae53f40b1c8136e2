/**
 * What {@code berthd} and the process that supervises a detached cluster have in common: a folder.
 * Neither calls the other.
 */
package berth.supervision;
