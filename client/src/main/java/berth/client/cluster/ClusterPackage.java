package berth.client.cluster;

import berth.client.call.TarPacker;
import berth.client.call.TarUnpacker;
import berth.client.spec.Program;
import berth.rpc.BerthException;
import berth.rpc.Reason;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.TypeAdapter;
import com.google.gson.TypeAdapterFactory;
import com.google.gson.reflect.TypeToken;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import com.google.gson.stream.JsonWriter;
import java.io.IOException;
import java.io.InputStream;
import java.io.StringReader;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * A cluster as it is handed over: a folder with {@code cluster.json}, which is the request, and the
 * scripts and folders of its tasks. It is written and read by the same version of Berth; but
 * whoever reads it cannot know that.
 */
final class ClusterPackage {
  // A request in a request in a request is none of ours.
  private static final int DEEPEST = 20;
  private static final String UNFINISHED = "unpacking";
  private static final TarUnpacker.Limits LIMITS = new TarUnpacker.Limits(4L << 30, 100_000, 100);
  private static final Gson JSON =
      new GsonBuilder()
          .disableHtmlEscaping()
          .setStrictness(Strictness.STRICT)
          .registerTypeAdapterFactory(new RecordAdapters())
          .registerTypeAdapterFactory(new OptionalAdapters())
          .registerTypeHierarchyAdapter(Path.class, new TextAdapter<>(Path::of))
          .registerTypeAdapter(Duration.class, new TextAdapter<>(Duration::parse))
          .create();

  private ClusterPackage() {}

  /**
   * Writes a request, and copies all that it needs of this machine.
   *
   * @param folder which is empty
   * @throws IOException if something cannot be read or written
   */
  static void write(ClusterRequest request, Path folder) throws IOException {
    Map<Path, String> packed = new HashMap<>();
    for (TaskGroup group : request.groups()) {
      Program program = group.run().program();
      if (program.bundle().isPresent() && !packed.containsKey(program.bundle().get())) {
        String name = "files-" + packed.size() + ".tar";
        TarPacker.pack(program.bundle().get(), folder.resolve(name));
        packed.put(program.bundle().get(), name);
      } else if (isLoneScript(program) && !packed.containsKey(Path.of(program.words().get(0)))) {
        Path script = Path.of(program.words().get(0));
        String name = "script-" + packed.size() + "/" + script.getFileName();
        Files.createDirectories(folder.resolve(name).getParent());
        Files.copy(script, folder.resolve(name), StandardCopyOption.COPY_ATTRIBUTES);
        packed.put(script, name);
      }
    }
    ClusterRequest inside = moved(request, path -> Path.of(packed.get(path)));
    Files.writeString(folder.resolve(PackageFolder.REQUEST), JSON.toJson(inside));
  }

  private static boolean isLoneScript(Program program) {
    return program.bundle().isEmpty() && !program.isCommand() && !program.words().isEmpty();
  }

  /**
   * Reads a request, whose files stay where they are.
   *
   * @param unpacked where folders of tasks are unpacked to, unless they are there already
   * @throws BerthException if it is none
   * @throws IOException if something cannot be read or written
   */
  static ClusterRequest read(Path folder, Path unpacked) throws IOException {
    PackageFolder files = new PackageFolder(folder);
    ClusterRequest inside = parse(files.request());
    deleteUnfinished(unpacked);
    Map<Path, Path> places = new HashMap<>();
    for (TaskGroup group : inside.groups()) {
      Program program = group.run().program();
      if (program.bundle().isPresent()) {
        Path tar = program.bundle().get();
        try (InputStream packed = files.files(tar.toString())) {
          places.put(tar, unpack(packed, unpacked.resolve(tar)));
        }
      } else if (isLoneScript(program)) {
        String script = program.words().get(0);
        places.put(Path.of(script), files.script(script));
      }
    }
    return moved(inside, places::get);
  }

  private static ClusterRequest parse(byte[] json) {
    try (JsonReader reader =
        new JsonReader(new StringReader(new String(json, StandardCharsets.UTF_8)))) {
      reader.setNestingLimit(DEEPEST);
      ClusterRequest request = JSON.fromJson(reader, ClusterRequest.class);
      if (request == null || reader.peek() != JsonToken.END_DOCUMENT) {
        throw new JsonParseException("it is not one request");
      }
      return request;
    } catch (IOException | RuntimeException | StackOverflowError e) {
      throw new BerthException(
          Reason.INVALID, "not a cluster package of this version of Berth: " + reason(e), e);
    }
  }

  // Gson wraps what the records find wrong in one or another of its own, with all that the records
  // were to hold: variables too, which are nobody else's business.
  private static String reason(Throwable failure) {
    Throwable last = failure;
    while (last.getCause() != null) {
      last = last.getCause();
    }
    return PackageFolder.shown(String.valueOf(last.getMessage()));
  }

  // What is there is whole: it gets its name when it is.
  private static Path unpack(InputStream tar, Path target) throws IOException {
    if (!Files.isDirectory(target, LinkOption.NOFOLLOW_LINKS)) {
      Path begun =
          Files.createTempDirectory(Files.createDirectories(target.getParent()), UNFINISHED);
      try {
        TarUnpacker.unpack(tar, begun, name -> name, LIMITS);
        Files.move(begun, target, StandardCopyOption.ATOMIC_MOVE);
      } catch (IOException | RuntimeException e) {
        delete(begun);
        throw e;
      }
    }
    return target;
  }

  // Of one that was killed.
  private static void deleteUnfinished(Path unpacked) throws IOException {
    if (Files.isDirectory(unpacked, LinkOption.NOFOLLOW_LINKS)) {
      try (DirectoryStream<Path> left = Files.newDirectoryStream(unpacked, UNFINISHED + "*")) {
        for (Path folder : left) {
          delete(folder);
        }
      }
    }
  }

  /** Deletes a folder with all that is in it, and follows no links. */
  static void delete(Path folder) throws IOException {
    List<Path> all;
    try (Stream<Path> found = Files.walk(folder)) {
      all = found.sorted(Comparator.reverseOrder()).toList();
    }
    for (Path each : all) {
      Files.delete(each);
    }
  }

  /** The same request, with other places for scripts and folders. */
  private static ClusterRequest moved(ClusterRequest request, Function<Path, Path> places) {
    List<TaskGroup> groups =
        request.groups().stream()
            .map(group -> group.with(group.run().with(moved(group.run().program(), places))))
            .toList();
    return new ClusterRequest(
        request.name(),
        groups,
        request.layout(),
        request.waitAtMost(),
        request.timeLimit(),
        request.startTimeout(),
        request.stopGrace(),
        request.evaluatorGrace(),
        request.workerGrace(),
        request.policy());
  }

  private static Program moved(Program program, Function<Path, Path> places) {
    List<String> words = program.words();
    if (isLoneScript(program)) {
      String script = places.apply(Path.of(words.get(0))).toString();
      words = Stream.concat(Stream.of(script), words.stream().skip(1)).toList();
    }
    return new Program(
        words, program.isCommand(), program.bundle().map(places), program.interpreter());
  }

  /** Gson leaves what is missing null, which nobody who builds a request in Java can. */
  private static final class RecordAdapters implements TypeAdapterFactory {
    @Override
    public <T> TypeAdapter<T> create(Gson gson, TypeToken<T> type) {
      if (!type.getRawType().isRecord()) {
        return null;
      }
      TypeAdapter<T> usual = gson.getDelegateAdapter(this, type);
      return new TypeAdapter<>() {
        @Override
        public void write(JsonWriter out, T value) throws IOException {
          usual.write(out, value);
        }

        @Override
        public T read(JsonReader in) throws IOException {
          T value = usual.read(in);
          for (RecordComponent component : type.getRawType().getRecordComponents()) {
            if (value == null || RecordAdapters.read(component, value) == null) {
              throw new JsonParseException("there is no " + component.getName());
            }
          }
          return value;
        }
      };
    }

    private static Object read(RecordComponent component, Object record) {
      try {
        return component.getAccessor().invoke(record);
      } catch (ReflectiveOperationException e) {
        throw new JsonParseException(e);
      }
    }
  }

  /** What is written as one text. */
  private static final class TextAdapter<T> extends TypeAdapter<T> {
    private final Function<String, T> parser;

    TextAdapter(Function<String, T> parser) {
      this.parser = parser;
    }

    @Override
    public void write(JsonWriter out, T value) throws IOException {
      out.value(value.toString());
    }

    @Override
    public T read(JsonReader in) throws IOException {
      return parser.apply(in.nextString());
    }
  }

  /** A list with one element, or with none: Gson leaves out null, and forgets what is left out. */
  private static final class OptionalAdapters implements TypeAdapterFactory {
    @Override
    @SuppressWarnings("unchecked")
    public <T> TypeAdapter<T> create(Gson gson, TypeToken<T> type) {
      if (type.getRawType() != Optional.class) {
        return null;
      }
      TypeToken<?> content =
          TypeToken.get(((ParameterizedType) type.getType()).getActualTypeArguments()[0]);
      return (TypeAdapter<T>) adapter(gson.getAdapter(content));
    }

    private static <C> TypeAdapter<Optional<C>> adapter(TypeAdapter<C> content) {
      return new TypeAdapter<>() {
        @Override
        public void write(JsonWriter out, Optional<C> value) throws IOException {
          out.beginArray();
          if (value.isPresent()) {
            content.write(out, value.get());
          }
          out.endArray();
        }

        @Override
        public Optional<C> read(JsonReader in) throws IOException {
          in.beginArray();
          // Of a null in it there is no Optional.
          Optional<C> value = in.hasNext() ? Optional.of(content.read(in)) : Optional.empty();
          in.endArray();
          return value;
        }
      };
    }
  }
}
