package berth.host.gpu;

/**
 * A critical error as the driver reports it; "XID" is what NVIDIA and every administrator call it.
 */
public record Xid(String uuid, int code) {
  XidCatalogue.Entry entry() {
    return XidCatalogue.of(code);
  }

  @Override
  public String toString() {
    String meaning = entry().meaning();
    return "XID " + code + (meaning.isEmpty() ? "" : ", " + meaning);
  }
}
