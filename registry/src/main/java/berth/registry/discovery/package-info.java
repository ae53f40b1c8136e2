/** Answers those who look for a registry by UDP; see {@link berth.discovery}. */
package berth.registry.discovery;
