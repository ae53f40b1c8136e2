"""Lists the GPUs of a server without knowing Berth: the messages come from the server's own reflection service.

    list_gpus_by_reflection.py HOST:PORT

Prints the response of berth.v1.GpuService/ListGpus as JSON. Needs only grpcio and protobuf.
"""

import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

# Of grpc/reflection/v1/reflection.proto, only what is asked and answered here.
REFLECTION = descriptor_pb2.FileDescriptorProto(
    name="reflection.proto",
    package="grpc.reflection.v1",
    syntax="proto3",
    message_type=[
        descriptor_pb2.DescriptorProto(
            name="ServerReflectionRequest",
            field=[descriptor_pb2.FieldDescriptorProto(name="file_containing_symbol", number=4, type=9, label=1)],
        ),
        descriptor_pb2.DescriptorProto(
            name="FileDescriptorResponse",
            field=[descriptor_pb2.FieldDescriptorProto(name="file_descriptor_proto", number=1, type=12, label=3)],
        ),
        descriptor_pb2.DescriptorProto(
            name="ServerReflectionResponse",
            field=[
                descriptor_pb2.FieldDescriptorProto(
                    name="file_descriptor_response",
                    number=4,
                    type=11,
                    label=1,
                    type_name=".grpc.reflection.v1.FileDescriptorResponse",
                )
            ],
        ),
    ],
)


def message_class(pool, name):
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def pool_of(channel, symbol):
    """Every file that `symbol` needs, as the server describes it."""
    own = descriptor_pool.DescriptorPool()
    own.Add(REFLECTION)
    request = message_class(own, "grpc.reflection.v1.ServerReflectionRequest")
    response = message_class(own, "grpc.reflection.v1.ServerReflectionResponse")
    ask = channel.stream_stream(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    files = {}
    for answer in ask(iter([request(file_containing_symbol=symbol)]), timeout=10):
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            files[file.name] = file

    pool = descriptor_pool.DescriptorPool()
    added = set()

    def add(name):
        if name not in added:
            added.add(name)
            for dependency in files[name].dependency:
                add(dependency)
            pool.Add(files[name])

    for name in files:
        add(name)
    return pool


def main(address):
    with grpc.insecure_channel(address) as channel:
        pool = pool_of(channel, "berth.v1.GpuService")
        method = pool.FindServiceByName("berth.v1.GpuService").methods_by_name["ListGpus"]
        request = message_class(pool, method.input_type.full_name)
        response = message_class(pool, method.output_type.full_name)
        call = channel.unary_unary(
            "/berth.v1.GpuService/ListGpus",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        print(json_format.MessageToJson(call(request(), timeout=10), indent=None))


if __name__ == "__main__":
    main(sys.argv[1])
