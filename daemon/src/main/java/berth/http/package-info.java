/**
 * A small HTTP server, for what people and their monitoring look at: pages, numbers, and streams of
 * events. Netty's codecs read and write; its types stay in this package.
 */
package berth.http;
