"""Runs a command on a GPU without knowing Berth: the messages come from the server's own reflection service.

    run_code_by_reflection.py HOST:PORT IMAGE COMMAND...

Passes the output and the exit code on, and says what else happens. Needs only grpcio and protobuf.
"""

import sys

import grpc
from list_gpus_by_reflection import message_class, pool_of


def main(address, image, *command):
    with grpc.insecure_channel(address) as channel:
        pool = pool_of(channel, "berth.v1.RunService")
        method = pool.FindServiceByName("berth.v1.RunService").methods_by_name["RunCode"]
        request = message_class(pool, method.input_type.full_name)
        response = message_class(pool, method.output_type.full_name)
        call = channel.unary_stream(
            "/berth.v1.RunService/RunCode",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        stderr = pool.FindEnumTypeByName("berth.v1.OutputStream").values_by_name["OUTPUT_STREAM_STDERR"].number
        asked = request(image=image, command=command)
        asked.gpus.exactly.ids.append("0")
        for event in call(asked, timeout=60):
            kind = event.WhichOneof("event")
            if kind == "output":
                stream = sys.stderr if event.output.stream == stderr else sys.stdout
                stream.flush()
                stream.buffer.write(event.output.data)
            elif kind == "exited":
                return event.exited.exit_code
            elif kind == "accepted":
                print("accepted", event.accepted.server)
            elif kind == "reserved":
                print("reserved", *(gpu.index for gpu in event.reserved.gpus))
            else:
                print(kind)
    raise SystemExit("the stream ended before the run did")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
