/**
 * What berthd keeps over its own end: small files with a checksum, in folders that only its user
 * can enter, on disk before anyone is answered.
 */
package berth.host.state;
