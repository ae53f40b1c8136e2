/** What servers and clients ask of archives that strangers made before they unpack them. */
package berth.archive;
