package berth;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.lang.AbstractClassesTransformer;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.lang.ClassesTransformer;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import com.tngtech.archunit.lang.syntax.ArchRuleDefinition;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** Which class may use which package, and what nothing may be called. */
final class Architecture {
  private static final Set<String> EMPTY_PACKAGE_NAMES = Set.of("util", "utils", "common");
  private static final Pattern EMPTY_TYPE_NAME =
      Pattern.compile("\\w*(Util|Utils|Common|Impl|Manager|Helper)");

  static final List<ArchRule> RULES =
      Stream.of(
              confined(
                  "io.grpc..",
                  "berth.rpc, berth.v1, *GrpcService, and *Client of berth.client.call,"
                      + " berth.server.presence and berth.registry.web",
                  user ->
                      isIn(user, "berth.rpc", "berth.v1")
                          || outermost(user).endsWith("GrpcService")
                          || isIn(
                                  user,
                                  "berth.client.call",
                                  "berth.server.presence",
                                  "berth.registry.web")
                              && outermost(user).endsWith("Client")),
              confined("io.netty.handler.codec.http..", "berth.http"),
              confined("com.sun.jna..", "berth.host", "berth.server.run.mount"),
              confined("com.github.dockerjava..", "berth.server.run.docker"),
              confined("io.etcd..", "berth.registry.directory"),
              confined("io.prometheus..", "berth.metrics"),
              confined("org.snakeyaml..", "berth.text"),
              confined(
                  "picocli..",
                  "berth.command, berth.cli, and *Command and *Options of the daemons",
                  user ->
                      isIn(user, "berth.command", "berth.cli")
                          || Set.of("berth.server", "berth.registry")
                                  .contains(user.getPackageName())
                              && outermost(user).matches("\\w+(Command|Options)")),
              confined("berth.server..", "berth.server"),
              confined("berth.registry..", "berth.registry"),
              confined("berth.client..", "berth.client", "berth.cli"),
              confined("berth.cli..", "berth.cli"),
              noClasses()
                  .that()
                  .resideInAPackage("berth.client.spec..")
                  .should()
                  .dependOnClassesThat()
                  .resideInAnyPackage("berth.v1..", "com.google.protobuf.."),
              slices().matching("berth.(**)").should().beFreeOfCycles(),
              noClasses()
                  .should()
                  .resideInAnyPackage(
                      EMPTY_PACKAGE_NAMES.stream()
                          .map(name -> ".." + name + "..")
                          .toArray(String[]::new)),
              noClasses().should(haveAnEmptyName()),
              ArchRuleDefinition.all(simpleNames()).should(nameOneClass()))
          // So that a few classes can be looked at.
          .map(rule -> rule.allowEmptyShould(true))
          .toList();

  private Architecture() {}

  private static ArchRule confined(String packages, String... to) {
    return confined(packages, String.join(" and ", to), user -> isIn(user, to));
  }

  private interface Users {
    boolean include(JavaClass user);
  }

  private static ArchRule confined(String packages, String where, Users users) {
    return noClasses()
        .that(DescribedPredicate.describe("are outside of " + where, user -> !users.include(user)))
        .should()
        .dependOnClassesThat()
        .resideInAPackage(packages);
  }

  private static boolean isIn(JavaClass type, String... packageNames) {
    return Stream.of(packageNames)
        .anyMatch(name -> (type.getPackageName() + ".").startsWith(name + "."));
  }

  /** The simple name of the class in whose file {@code type} is. */
  private static String outermost(JavaClass type) {
    JavaClass outer = type;
    while (outer.getEnclosingClass().isPresent()) {
      outer = outer.getEnclosingClass().get();
    }
    return outer.getSimpleName();
  }

  private static ArchCondition<JavaClass> haveAnEmptyName() {
    return new ArchCondition<>("have a name that says nothing") {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        boolean empty = EMPTY_TYPE_NAME.matcher(type.getSimpleName()).matches();
        events.add(new SimpleConditionEvent(type, empty, type.getName() + " has such a name"));
      }
    };
  }

  /** The classes of each name, without those within others and what is generated. */
  private record Namesakes(String name, List<String> classes) {}

  private static ClassesTransformer<Namesakes> simpleNames() {
    return new AbstractClassesTransformer<>("simple names but Main") {
      @Override
      public Iterable<Namesakes> doTransform(JavaClasses all) {
        return StreamSupport.stream(all.spliterator(), false)
            .filter(type -> type.isTopLevelClass() && !isIn(type, "berth.v1"))
            .filter(type -> !Set.of("Main", "package-info").contains(type.getSimpleName()))
            .collect(
                Collectors.groupingBy(
                    JavaClass::getSimpleName,
                    Collectors.mapping(JavaClass::getName, Collectors.toList())))
            .entrySet()
            .stream()
            .map(entry -> new Namesakes(entry.getKey(), entry.getValue()))
            .toList();
      }
    };
  }

  private static ArchCondition<Namesakes> nameOneClass() {
    return new ArchCondition<>("name one class") {
      @Override
      public void check(Namesakes name, ConditionEvents events) {
        events.add(
            new SimpleConditionEvent(
                name, name.classes.size() == 1, name.name + " names all of " + name.classes));
      }
    };
  }
}
