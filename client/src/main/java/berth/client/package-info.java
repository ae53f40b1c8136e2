/**
 * The library through which programs use Berth: one proxy for each service, of the same shape as
 * the service.
 */
package berth.client;
