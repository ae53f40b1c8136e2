/**
 * The library through which programs use Berth. {@link berth.client.Berth} is its front door, the
 * rest of this package is what it returns. It takes what {@link berth.client.spec} and {@link
 * berth.client.cluster} describe; {@link berth.client.call} is for itself.
 */
package berth.client;
