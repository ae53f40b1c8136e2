package berth.command;

import picocli.CommandLine.IVersionProvider;

/** The version of Berth, as the build wrote it into the jar. */
public final class Version implements IVersionProvider {
  public static String current() {
    String version = Version.class.getPackage().getImplementationVersion();
    return version == null ? "unpacked" : version;
  }

  @Override
  public String[] getVersion() {
    return new String[] {"${COMMAND-FULL-NAME} " + current()};
  }
}
