package berth.cli;

import berth.rpc.PlainText;
import java.util.ArrayList;
import java.util.List;

/** Draws a table for people. */
final class Columns {
  private Columns() {}

  /** One line a row, without what cannot be seen, each column as wide as its widest cell. */
  static String render(List<List<String>> unclean) {
    List<List<String>> rows =
        unclean.stream().map(row -> row.stream().map(PlainText::clean).toList()).toList();
    List<Integer> widths = new ArrayList<>();
    for (List<String> row : rows) {
      for (int i = 0; i < row.size(); i++) {
        if (i == widths.size()) {
          widths.add(0);
        }
        widths.set(i, Math.max(widths.get(i), row.get(i).length()));
      }
    }
    StringBuilder text = new StringBuilder();
    for (List<String> row : rows) {
      StringBuilder line = new StringBuilder();
      for (int i = 0; i < row.size(); i++) {
        line.append(String.format("%-" + (widths.get(i) + 2) + "s", row.get(i)));
      }
      text.append(line.toString().stripTrailing()).append('\n');
    }
    return text.toString();
  }
}
