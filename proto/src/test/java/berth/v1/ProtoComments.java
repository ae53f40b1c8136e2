package berth.v1;

import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.EnumDescriptorProto;
import com.google.protobuf.DescriptorProtos.EnumValueDescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.MethodDescriptorProto;
import com.google.protobuf.DescriptorProtos.OneofDescriptorProto;
import com.google.protobuf.DescriptorProtos.ServiceDescriptorProto;
import com.google.protobuf.DescriptorProtos.SourceCodeInfo.Location;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.Message;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/** Finds what a .proto file defines without a comment before it. */
final class ProtoComments {
  private static final Set<Descriptor> DEFINITIONS =
      Set.of(
          DescriptorProto.getDescriptor(),
          FieldDescriptorProto.getDescriptor(),
          OneofDescriptorProto.getDescriptor(),
          EnumDescriptorProto.getDescriptor(),
          EnumValueDescriptorProto.getDescriptor(),
          ServiceDescriptorProto.getDescriptor(),
          MethodDescriptorProto.getDescriptor());

  // protoc names a definition by its path of field numbers and positions in the file's descriptor.
  private final Set<List<Integer>> commented;
  private final List<String> missing = new ArrayList<>();

  private ProtoComments(FileDescriptorProto file) {
    commented =
        file.getSourceCodeInfo().getLocationList().stream()
            .filter(location -> !location.getLeadingComments().isBlank())
            .map(Location::getPathList)
            .collect(Collectors.toSet());
  }

  /** The full names of the definitions without comment. */
  static List<String> missingIn(FileDescriptorProto file) {
    var comments = new ProtoComments(file);
    comments.walk(file, file.getPackage(), List.of());
    return comments.missing;
  }

  private void walk(Message parent, String scope, List<Integer> path) {
    for (FieldDescriptor field : parent.getAllFields().keySet()) {
      if (field.getJavaType() != JavaType.MESSAGE
          || !DEFINITIONS.contains(field.getMessageType())) {
        continue;
      }
      for (int i = 0; i < parent.getRepeatedFieldCount(field); i++) {
        var child = (Message) parent.getRepeatedField(field, i);
        if (!isMadeByProtoc(child)) {
          check(child, scope, append(path, field.getNumber(), i));
        }
      }
    }
  }

  private void check(Message definition, String scope, List<Integer> path) {
    var nameField = definition.getDescriptorForType().findFieldByName("name");
    String name = scope + "." + definition.getField(nameField);
    if (!commented.contains(path)) {
      missing.add(name);
    }
    walk(definition, name, path);
  }

  // The entry type of a map, and the oneof around a field that is `optional`.
  private static boolean isMadeByProtoc(Message definition) {
    return definition instanceof DescriptorProto message && message.getOptions().getMapEntry()
        || definition instanceof OneofDescriptorProto oneof && oneof.getName().startsWith("_");
  }

  private static List<Integer> append(List<Integer> path, int fieldNumber, int position) {
    var longer = new ArrayList<>(path);
    longer.add(fieldNumber);
    longer.add(position);
    return longer;
  }
}
