package berth.text;

import berth.rpc.BerthException;
import berth.rpc.Reason;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/** A value in a YAML file. It knows its place: mistakes are told with file and line. */
public final class YamlValue {
  private static final String MERGE = "<<";

  /** A line {@code key: value}. */
  public record Pair(YamlValue key, YamlValue value) {}

  private final String file;
  private final Node node;

  private YamlValue(String file, Node node) {
    this.file = file;
    this.node = node;
  }

  /**
   * Reads a file; empty if nothing but comments is in it.
   *
   * @param what what it is, such as {@code configuration file}
   * @throws BerthException if it cannot be read, or is not YAML
   */
  public static Optional<YamlValue> read(Path file, String what) {
    String text;
    try {
      text = Files.readString(file);
    } catch (NoSuchFileException e) {
      throw new BerthException(Reason.INVALID, "there is no " + what + " " + file, e);
    } catch (IOException e) {
      throw new BerthException(
          Reason.INVALID, "cannot read the " + what + " " + file + ": " + FileFailure.why(e), e);
    }
    return parse(file.toString(), text);
  }

  /**
   * Reads {@code text}.
   *
   * @param file where it comes from, for messages
   * @throws BerthException if it is not YAML
   */
  public static Optional<YamlValue> parse(String file, String text) {
    LoadSettings settings =
        LoadSettings.builder().setLabel(file).setAllowDuplicateKeys(true).build();
    try {
      return new Compose(settings).composeString(text).map(node -> new YamlValue(file, node));
    } catch (MarkedYamlEngineException e) {
      int line = e.getProblemMark().map(mark -> mark.getLine() + 1).orElse(1);
      throw invalid(file, line, "not YAML: " + e.getProblem());
    } catch (YamlEngineException | IllegalArgumentException e) {
      // The second for some tags, which the parser does not expect to be wrong.
      throw invalid(file, 1, "not YAML: " + e.getMessage());
    }
  }

  /** Where it begins, from 1. */
  public int line() {
    return node.getStartMark().map(mark -> mark.getLine() + 1).orElse(1);
  }

  /** Whether nothing stands there. */
  public boolean isNothing() {
    return node instanceof ScalarNode scalar && scalar.isPlain() && scalar.getValue().isEmpty();
  }

  /** The text as it was written, if it is a single value. */
  public Optional<String> scalar() {
    return node instanceof ScalarNode scalar ? Optional.of(scalar.getValue()) : Optional.empty();
  }

  /** Its parts, if it is a list. */
  public Optional<List<YamlValue>> items() {
    return node instanceof SequenceNode sequence
        ? Optional.of(sequence.getValue().stream().map(this::beside).toList())
        : Optional.empty();
  }

  /**
   * Its lines, if it is a mapping, with those that it takes from others by {@code <<}. What is
   * given twice is there twice.
   */
  public Optional<List<Pair>> pairs() {
    if (!(node instanceof MappingNode mapping)) {
      return Optional.empty();
    }
    List<Pair> pairs = new ArrayList<>();
    gather(mapping, pairs, Collections.newSetFromMap(new IdentityHashMap<>()));
    return Optional.of(pairs);
  }

  // Those who come first win. A mapping that was seen has nothing to add, also not to itself.
  private void gather(MappingNode mapping, List<Pair> pairs, Set<Node> seen) {
    if (!seen.add(mapping)) {
      return;
    }
    Set<Optional<String>> said = new HashSet<>();
    pairs.forEach(pair -> said.add(pair.key().scalar()));
    List<MappingNode> merged = new ArrayList<>();
    for (NodeTuple tuple : mapping.getValue()) {
      YamlValue key = beside(tuple.getKeyNode());
      YamlValue value = beside(tuple.getValueNode());
      if (tuple.getKeyNode() instanceof ScalarNode scalar
          && scalar.isPlain()
          && scalar.getValue().equals(MERGE)) {
        merged.addAll(value.mergeable());
      } else if (!said.contains(key.scalar())) {
        pairs.add(new Pair(key, value));
      }
    }
    merged.forEach(each -> gather(each, pairs, seen));
  }

  private List<MappingNode> mergeable() {
    List<MappingNode> mappings = new ArrayList<>();
    for (YamlValue each : items().orElse(List.of(this))) {
      if (!(each.node instanceof MappingNode mapping)) {
        throw each.invalid("'" + MERGE + "' takes what an anchor names, such as *base, or a list");
      }
      mappings.add(mapping);
    }
    return mappings;
  }

  /**
   * The text as it was written.
   *
   * @param what whose value it is, for messages
   * @throws BerthException if it is not a single value, or has what neither paths nor programs take
   */
  public String text(String what) {
    String text = scalar().orElseThrow(() -> invalid(what + " takes a single value"));
    if (text.indexOf('\0') >= 0) {
      throw invalid(what + " has a NUL in its value");
    }
    return text;
  }

  /**
   * What the text means.
   *
   * @param what whose value it is, for messages
   * @throws BerthException if it is not a single value, or {@code converter} refuses it
   */
  public <T> T converted(String what, Function<String, T> converter) {
    try {
      return converter.apply(text(what));
    } catch (InvalidValueException e) {
      throw invalid(what + ": " + e.getMessage());
    }
  }

  /**
   * Its lines.
   *
   * @param what whose value it is, for messages
   * @param form what the lines look like, for messages
   * @throws BerthException if it is not a mapping
   */
  public List<Pair> pairs(String what, String form) {
    return pairs().orElseThrow(() -> invalid(what + " takes lines of the form '" + form + "'"));
  }

  /** The failure that says what is wrong here. */
  public BerthException invalid(String what) {
    return invalid(file, line(), what);
  }

  private static BerthException invalid(String file, int line, String what) {
    return new BerthException(Reason.INVALID, file + ":" + line + ": " + what);
  }

  private YamlValue beside(Node other) {
    return new YamlValue(file, other);
  }
}
