/**
 * Running people's code on the GPUs of this machine.
 *
 * <p>Its files: {@code Bundles} keeps what people upload, {@code BundleTar} reads it and trusts
 * none of it, {@code WorkFiles} handles the folders in which their programs have worked. What the
 * administrator says: {@code Services} names images, {@code MountRules} the folders that programs
 * may see.
 */
package berth.server.run;
