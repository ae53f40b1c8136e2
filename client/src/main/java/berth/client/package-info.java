/**
 * The library through which programs use Berth. {@link berth.client.Berth} is its front door;
 * behind it there is one proxy for each service, of the same shape as the service.
 */
package berth.client;
