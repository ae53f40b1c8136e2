package berth.registry.web;

import berth.rpc.PlainText;
import com.google.gson.stream.JsonWriter;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;

/** Writes JSON for the page: times in milliseconds since 1970, null for what nobody knows. */
final class PageJson {
  /** Writes something. */
  interface Content {
    void write(PageJson json) throws IOException;
  }

  private final JsonWriter writer;

  private PageJson(JsonWriter writer) {
    this.writer = writer;
  }

  /** An object with this content. */
  static String object(Content content) {
    StringWriter text = new StringWriter();
    JsonWriter writer = new JsonWriter(text);
    try {
      writer.beginObject();
      content.write(new PageJson(writer));
      writer.endObject();
      writer.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  /** A text of one line, cleaned of what cannot be seen: servers may be anybody's. */
  PageJson put(String name, String value) throws IOException {
    writer.name(name).value(value == null ? null : PlainText.clean(value));
    return this;
  }

  /** What a program has printed, as it is. */
  PageJson putOutput(String name, String value) throws IOException {
    writer.name(name).value(value);
    return this;
  }

  PageJson put(String name, long value) throws IOException {
    writer.name(name).value(value);
    return this;
  }

  PageJson put(String name, double value) throws IOException {
    writer.name(name).value(value);
    return this;
  }

  PageJson put(String name, boolean value) throws IOException {
    writer.name(name).value(value);
    return this;
  }

  PageJson putNull(String name) throws IOException {
    writer.name(name).nullValue();
    return this;
  }

  /** A number, if it is known. */
  PageJson put(String name, boolean known, long value) throws IOException {
    return known ? put(name, value) : putNull(name);
  }

  /** A time, if it is known. */
  PageJson put(String name, boolean known, Timestamp time) throws IOException {
    return put(name, known, millis(time));
  }

  PageJson putObject(String name, Content content) throws IOException {
    writer.name(name).beginObject();
    content.write(this);
    writer.endObject();
    return this;
  }

  PageJson putArray(String name, Content content) throws IOException {
    writer.name(name).beginArray();
    content.write(this);
    writer.endArray();
    return this;
  }

  PageJson putNumbers(String name, Iterable<Integer> numbers) throws IOException {
    return putArray(
        name,
        array -> {
          for (int number : numbers) {
            array.writer.value(number);
          }
        });
  }

  PageJson putTexts(String name, Iterable<String> texts) throws IOException {
    return putArray(
        name,
        array -> {
          for (String text : texts) {
            array.writer.value(PlainText.clean(text));
          }
        });
  }

  /** An object as an element of an array. */
  PageJson add(Content content) throws IOException {
    writer.beginObject();
    content.write(this);
    writer.endObject();
    return this;
  }

  /** An array as an element of an array. */
  PageJson addArray(Content content) throws IOException {
    writer.beginArray();
    content.write(this);
    writer.endArray();
    return this;
  }

  /** A number as an element of an array, or null. */
  PageJson add(boolean known, long value) throws IOException {
    if (known) {
      writer.value(value);
    } else {
      writer.nullValue();
    }
    return this;
  }

  static long millis(Timestamp time) {
    return time.getSeconds() * 1000 + time.getNanos() / 1_000_000;
  }

  static double seconds(Duration time) {
    return time.getSeconds() + time.getNanos() / 1_000_000 / 1000.0;
  }

  /** The end of the name of a constant, as the page knows it: {@code RUN_STATE_QUEUED}, queued. */
  static String word(Enum<?> constant, String prefix) {
    String name = constant.name();
    String word = name.startsWith(prefix) ? name.substring(prefix.length()) : name;
    return word.equals("UNSPECIFIED") ? "" : word.toLowerCase(java.util.Locale.ROOT);
  }
}
