package berth.cli;

import berth.client.call.ThisUser;
import berth.v1.Owner;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** The options of lists that say whose entries are shown. */
final class OwnerOption {
  @ArgGroup private Whose whose = new Whose();

  /** One of two ways to say it. */
  static final class Whose {
    @Option(names = "--mine", description = "Only your own: of this user on this machine.")
    private boolean mine;

    @Option(
        names = "--user",
        paramLabel = "NAME[@HOST]",
        converter = NameConverter.class,
        description = "Only those of this user.")
    private String user = "";
  }

  /** Whether only some are wanted. */
  boolean given() {
    return whose.mine || !whose.user.isEmpty();
  }

  /** Whether what belongs to {@code owner} is wanted. */
  boolean wants(Owner owner) {
    if (whose.mine) {
      return name(owner).equals(name(ThisUser.owner()));
    }
    return whose.user.isEmpty()
        || whose.user.equals(owner.getUser())
        || whose.user.equals(name(owner));
  }

  private static String name(Owner owner) {
    return owner.getUser() + "@" + owner.getHost();
  }

  /** Refuses the empty name, which an unset variable of a shell gives. */
  static final class NameConverter implements ITypeConverter<String> {
    @Override
    public String convert(String text) {
      if (text.isEmpty()) {
        throw new TypeConversionException("the name must not be empty");
      }
      return text;
    }
  }
}
