"""Times queries of RPyC's own registry, for a comparison.

    seed_registry.py SERVERS MATCHING QUERIES

Starts the registry on loopback, registers SERVERS servers, MATCHING of them under the name TENSORFLOW, asks QUERIES
times for these, and prints the times in microseconds, one a line. More than about eighty cannot be asked for: the
registry answers with one datagram.
"""

import logging
import multiprocessing
import socket
import sys
import time

from rpyc.utils.registry import UDPRegistryClient, UDPRegistryServer


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve(port):
    logger = logging.getLogger("registry")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    UDPRegistryServer(host="127.0.0.1", port=port, logger=logger).start()


def main():
    servers, matching, queries = map(int, sys.argv[1:4])
    port = free_port()
    registry = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    registry.start()
    quiet = logging.getLogger("client")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    client = UDPRegistryClient("127.0.0.1", port, logger=quiet)
    try:
        while not client.register(("FIRST",), 1):
            pass
        for number in range(servers):
            name = "TENSORFLOW" if number < matching else "CAFFE-%d" % (number % 100)
            if not client.register((name,), 2 + number):
                sys.exit("the registry does not answer")
        for _ in range(queries):
            start = time.perf_counter_ns()
            found = client.discover("tensorflow")
            print((time.perf_counter_ns() - start) // 1000)
            if len(found) != matching:
                sys.exit("%d servers found, not %d" % (len(found), matching))
    finally:
        registry.terminate()
        registry.join()


main()
