"""Learns a line with DistributedDataParallel of PyTorch, over gloo.

Knows its place from MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE.
"""

import argparse
import fcntl
import gc
import os
import socket
import struct
import sys

import torch
import torch.distributed as dist

TRUE_WEIGHTS = torch.tensor([[2.0], [-3.0], [0.5], [1.0]])
TRUE_BIAS = 4.0


def interface_to(host, port):
    """The name of the network interface from which this machine reaches a host; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()))  # SIOCGIFADDR
            except OSError:
                continue  # It has no address.
            if socket.inet_ntoa(found[20:24]) == own:
                return name
    raise OSError(f"no network interface has the address {own}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, metavar="N", help="how long to learn (default: 100)")
    options = parser.parse_args()

    # By itself gloo takes the address that the name of this machine has, which is often one of loopback.
    master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_to(*master))
    dist.init_process_group("gloo", init_method="env://")
    loss = learn(options.steps)
    print(f"loss {loss:.4f} at rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    # Else the threads of the model's process group outlive Python itself now and then, and abort the program.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    if not loss < 0.01:
        sys.exit(f"it has not learned: the loss {loss:.4f} is not below 0.01")


def learn(steps):
    """Returns the loss that is left, of all ranks together."""
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(len(TRUE_WEIGHTS), 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()

    loss = loss_of(model).detach()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def loss_of(model):
    inputs = torch.randn(32, len(TRUE_WEIGHTS))
    noise = 0.05 * torch.randn(32, 1)
    return torch.nn.functional.mse_loss(model(inputs), inputs @ TRUE_WEIGHTS + TRUE_BIAS + noise)


main()
