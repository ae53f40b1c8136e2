/**
 * How the rest of the library speaks with registries and servers: one proxy for each service, of
 * the same shape as the service, the search for a server that takes a request, and the delivery of
 * code and files. Other than {@link berth.client.spec}, it is made of the wire's messages.
 */
package berth.client.call;
