package berth.command;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;

/** A YAML file of lines such as {@code listen: 127.0.0.1:18812}. */
public final class SettingsFile {
  /**
   * A value and where it stands.
   *
   * @param line from 1
   */
  public record Entry(String value, int line) {}

  private final Path file;

  private SettingsFile(Path file) {
    this.file = file;
  }

  /**
   * Reads {@code file}.
   *
   * @param known the keys that it may have
   * @throws BerthException if the file cannot be read, is not a flat mapping, or has another key
   */
  public static Map<String, Entry> read(Path file, SortedSet<String> known) {
    return new SettingsFile(file).read(known);
  }

  private Map<String, Entry> read(SortedSet<String> known) {
    Map<String, Entry> entries = new LinkedHashMap<>();
    Optional<Node> root = parse();
    if (root.isEmpty()) {
      return entries;
    }
    if (!(root.get() instanceof MappingNode mapping)) {
      throw invalid(line(root.get()), "expected lines of the form 'option: value'");
    }
    for (NodeTuple tuple : mapping.getValue()) {
      int line = line(tuple.getKeyNode());
      String key =
          scalar(tuple.getKeyNode()).orElseThrow(() -> invalid(line, "a key must be text"));
      if (!known.contains(key)) {
        throw invalid(line, "unknown key '" + key + "'; known keys: " + String.join(", ", known));
      }
      String value =
          scalar(tuple.getValueNode())
              .orElseThrow(() -> invalid(line, "'" + key + "' takes a single value"));
      if (entries.put(key, new Entry(value, line)) != null) {
        throw invalid(line, "'" + key + "' is given twice");
      }
    }
    return entries;
  }

  private Optional<Node> parse() {
    LoadSettings settings =
        LoadSettings.builder().setLabel(file.toString()).setAllowDuplicateKeys(true).build();
    try {
      return new Compose(settings).composeString(Files.readString(file));
    } catch (MarkedYamlEngineException e) {
      throw invalid(
          e.getProblemMark().map(mark -> mark.getLine() + 1).orElse(1),
          "not YAML: " + e.getProblem());
    } catch (YamlEngineException e) {
      throw invalid(1, "not YAML: " + e.getMessage());
    } catch (NoSuchFileException e) {
      throw new BerthException(Reason.INVALID, "there is no configuration file " + file, e);
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID, "cannot read the configuration file " + file + ": " + e.getMessage(), e);
    }
  }

  private BerthException invalid(int line, String what) {
    return new BerthException(Reason.INVALID, file + ":" + line + ": " + what);
  }

  private static int line(Node node) {
    return node.getStartMark().map(mark -> mark.getLine() + 1).orElse(1);
  }

  private static Optional<String> scalar(Node node) {
    return node instanceof ScalarNode scalar ? Optional.of(scalar.getValue()) : Optional.empty();
  }
}
