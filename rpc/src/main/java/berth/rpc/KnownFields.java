package berth.rpc;

import com.google.protobuf.DiscardUnknownFieldsParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.Parser;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.PrototypeMarshaller;
import io.grpc.ServerMethodDefinition;
import io.grpc.ServerServiceDefinition;
import io.grpc.ServiceDescriptor;
import io.grpc.Status;
import java.io.InputStream;

/**
 * Reads messages without the fields that this version does not know, at every level. Whoever keeps
 * a message would keep these too, and no rule limits them.
 */
public final class KnownFields {
  private KnownFields() {}

  /** Reads messages of the type of {@code prototype}. */
  @SuppressWarnings("unchecked")
  public static <T extends Message> Parser<T> parser(T prototype) {
    return (Parser<T>) DiscardUnknownFieldsParser.wrap(prototype.getParserForType());
  }

  /** The same service, which never sees such fields in its requests. */
  static ServerServiceDefinition only(ServerServiceDefinition service) {
    ServiceDescriptor described = service.getServiceDescriptor();
    ServiceDescriptor.Builder descriptor =
        ServiceDescriptor.newBuilder(described.getName())
            .setSchemaDescriptor(described.getSchemaDescriptor());
    var methods = service.getMethods().stream().map(KnownFields::only).toList();
    methods.forEach(method -> descriptor.addMethod(method.getMethodDescriptor()));
    ServerServiceDefinition.Builder only = ServerServiceDefinition.builder(descriptor.build());
    methods.forEach(only::addMethod);
    return only.build();
  }

  private static <Q, A> ServerMethodDefinition<Q, A> only(ServerMethodDefinition<Q, A> method) {
    MethodDescriptor<Q, A> descriptor = method.getMethodDescriptor();
    if (!(descriptor.getRequestMarshaller() instanceof PrototypeMarshaller<Q> requests
        && requests.getMessagePrototype() instanceof Message prototype)) {
      throw new IllegalArgumentException(descriptor.getFullMethodName() + " takes no messages");
    }
    return ServerMethodDefinition.create(
        descriptor.toBuilder(
                new Requests<>(requests, parser(prototype)), descriptor.getResponseMarshaller())
            .build(),
        method.getServerCallHandler());
  }

  private record Requests<T>(PrototypeMarshaller<T> usual, Parser<? extends Message> parser)
      implements PrototypeMarshaller<T> {
    @Override
    public InputStream stream(T message) {
      return usual.stream(message);
    }

    @Override
    public T parse(InputStream stream) {
      try {
        return getMessageClass().cast(parser.parseFrom(stream));
      } catch (InvalidProtocolBufferException e) {
        // As gRPC says it of every other message.
        throw Status.INTERNAL
            .withDescription("Invalid protobuf byte sequence")
            .withCause(e)
            .asRuntimeException();
      }
    }

    @Override
    public T getMessagePrototype() {
      return usual.getMessagePrototype();
    }

    @Override
    public Class<T> getMessageClass() {
      return usual.getMessageClass();
    }
  }
}
