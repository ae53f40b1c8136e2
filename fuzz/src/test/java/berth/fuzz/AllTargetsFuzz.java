package berth.fuzz;

import com.code_intelligence.jazzer.junit.FuzzTest;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import org.apache.commons.compress.archivers.tar.TarArchiveInputStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * All targets in one process, for a look at each of them: Jazzer takes longer to start than that.
 * The first byte of an input says which target reads the rest.
 */
class AllTargetsFuzz {
  private static final Path MODULE = Path.of(System.getProperty("berth.root"), "fuzz");
  private static final List<Target> TARGETS = targets();

  private record Target(Object instance, Method method) {
    static Target of(Class<?> type) throws ReflectiveOperationException {
      Constructor<?> constructor = type.getDeclaredConstructor();
      constructor.setAccessible(true);
      Target target = new Target(constructor.newInstance(), annotated(type, FuzzTest.class).get(0));
      annotated(type, BeforeAll.class).forEach(target::call);
      return target;
    }

    private static List<Method> annotated(
        Class<?> type, Class<? extends java.lang.annotation.Annotation> annotation) {
      List<Method> found =
          Arrays.stream(type.getDeclaredMethods())
              .filter(method -> method.isAnnotationPresent(annotation))
              .toList();
      found.forEach(method -> method.setAccessible(true));
      return found;
    }

    /** Its own seeds, what is kept of earlier findings, and what earlier fuzzing has learned. */
    List<byte[]> seeds() {
      Class<?> type = instance.getClass();
      Path kept =
          MODULE.resolve("src/test/resources/" + type.getName().replace('.', '/') + "Inputs");
      List<byte[]> seeds = new ArrayList<>();
      try {
        Method own = type.getDeclaredMethod("seeds");
        own.setAccessible(true);
        ((Stream<?>) call(own)).forEach(seed -> seeds.add((byte[]) seed));
        if (Files.isDirectory(kept)) {
          try (Stream<Path> files = Files.walk(kept)) {
            for (Path file : files.filter(Files::isRegularFile).toList()) {
              seeds.add(Files.readAllBytes(file));
            }
          }
        }
        seeds.addAll(learned(type.getSimpleName().replaceFirst("FuzzTest$", "")));
      } catch (NoSuchMethodException e) {
        throw new IllegalStateException(e);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      return seeds;
    }

    private static List<byte[]> learned(String name) throws IOException {
      Path archive = MODULE.resolve("corpus").resolve(name + ".tar.gz");
      List<byte[]> inputs = new ArrayList<>();
      if (Files.exists(archive)) {
        try (var tar =
            new TarArchiveInputStream(new GZIPInputStream(Files.newInputStream(archive)))) {
          for (var entry = tar.getNextEntry(); entry != null; entry = tar.getNextEntry()) {
            if (entry.isFile()) {
              inputs.add(tar.readAllBytes());
            }
          }
        }
      }
      return inputs;
    }

    Object call(Method called, Object... arguments) {
      try {
        return called.invoke(instance, arguments);
      } catch (InvocationTargetException e) {
        throw thrown(e.getCause());
      } catch (IllegalAccessException e) {
        throw new IllegalStateException(e);
      }
    }

    private static RuntimeException thrown(Throwable cause) {
      if (cause instanceof Error error) {
        throw error;
      }
      return cause instanceof RuntimeException unchecked
          ? unchecked
          : new IllegalStateException(cause);
    }
  }

  private static List<Target> targets() {
    Path sources = MODULE.resolve("src/test/java");
    List<Target> targets = new ArrayList<>();
    try (Stream<Path> files = Files.walk(sources)) {
      for (Path file :
          files.filter(path -> path.toString().endsWith("FuzzTest.java")).sorted().toList()) {
        String name = sources.relativize(file).toString().replace('/', '.');
        targets.add(Target.of(Class.forName(name.substring(0, name.length() - ".java".length()))));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    return targets;
  }

  static Stream<byte[]> seeds() {
    List<byte[]> seeds = new ArrayList<>();
    for (int i = 0; i < TARGETS.size(); i++) {
      for (byte[] seed : TARGETS.get(i).seeds()) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write(i);
        bytes.writeBytes(seed);
        seeds.add(bytes.toByteArray());
      }
    }
    return seeds.stream();
  }

  @MethodSource("seeds")
  @FuzzTest
  void holdsWhatEachTargetStates(byte[] data) {
    if (data.length > 0) {
      Target target = TARGETS.get((data[0] & 0xff) % TARGETS.size());
      target.call(target.method, (Object) Arrays.copyOfRange(data, 1, data.length));
    }
  }
}
