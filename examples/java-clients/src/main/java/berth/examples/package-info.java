/** Programs that use Berth through its library, to be copied from. */
package berth.examples;
