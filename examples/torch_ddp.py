#!/usr/bin/env python3
"""Unmodified DistributedDataParallel training that goes on while ranks die.

    ucft_run -n 4 --expect-kill 0 python3 examples/torch_ddp.py --kill 0@30

Each rank makes its own data, and the ranks train one model (with BatchNorm, so that buffers are broadcast, too). --kill
R@STEP: rank R kills itself (SIGKILL) in the middle of that step's backward pass, when some of its gradients have been
sent and others not. At the end survivors compare their weights, bit by bit. Exit code 0: they are the same, and the
loss has fallen.

--backend gloo does the same with Gloo, for comparison; it says what was raised, and after how long.
"""
import argparse
import hashlib
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

import ucft.torch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--kill", metavar="R@STEP", action="append", default=[], help="may be repeated")
    parser.add_argument("--backend", choices=("ucft", "gloo"), default="ucft")
    parser.add_argument("--hook", action="store_true", help="average gradients over the ranks that contributed "
                        "(ucft.torch.average_hook), instead of dividing by the number at the start")
    parser.add_argument("--hidden", type=int, default=320, help="width of the model's layers")
    parser.add_argument("--batch", type=int, default=16, help="samples per rank and step")
    parser.add_argument("--json", action="store_true", help="each survivor prints an object at the end, as one line")
    options = parser.parse_args()
    try:
        options.kill = {int(rank): int(step) for rank, step in (each.split("@") for each in options.kill)}
    except ValueError:
        parser.error("--kill: RANK@STEP, both numbers")
    return options


def make_model(hidden):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(16, hidden)]
    for _ in range(3):
        layers += [torch.nn.BatchNorm1d(hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden)]
    return torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(hidden, 1))


def digest(model):
    sha = hashlib.sha256()
    for parameter in model.parameters():
        sha.update(parameter.detach().numpy().tobytes())
    return sha.digest()


def same_everywhere(own):
    """Whether all survivors have these bytes. A dead rank's block stays as it was."""
    mine = torch.tensor(list(own), dtype=torch.uint8)
    blocks = [mine.clone() for _ in range(dist.get_world_size())]
    dist.all_gather(blocks, mine)
    return all(torch.equal(block, mine) for block in blocks)


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend, init_method="ucft://")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(make_model(options.hidden), bucket_cap_mb=1)
    if options.hook:
        model.register_comm_hook(None, ucft.torch.average_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = 0

    def die(gradient):
        if step == options.kill.get(rank):
            os.kill(os.getpid(), signal.SIGKILL)
        return gradient
    model.module[0].weight.register_hook(die)  # the first layer's gradient is the last one of a backward pass

    teacher = torch.linspace(-1, 1, 16).unsqueeze(1)
    data = torch.Generator().manual_seed(rank)
    losses, failed = [], ()
    for step in range(options.steps):
        inputs = torch.randn(options.batch, 16, generator=data)
        wanted = torch.tanh(inputs @ teacher)
        begin = time.monotonic()
        try:
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
        except RuntimeError as error:
            sys.exit(f"rank {rank}: step {step}, after {time.monotonic() - begin:.2f} s: "
                     f"{type(error).__name__}: {error}")
        optimizer.step()
        losses.append(loss.item())
        if options.backend == "ucft" and ucft.torch.failed() != failed:
            failed = ucft.torch.failed()
            print(f"rank {rank}: step {step}, {time.monotonic() - begin:.2f} s: ranks {failed} are dead; "
                  "training goes on",
                  flush=True)
    first, last = (sum(part) / len(part) for part in (losses[:5], losses[-5:]))
    own = digest(model.module)
    same = same_everywhere(own)
    if options.json:
        print(json.dumps({"backend": options.backend, "rank": rank, "ranks": size, "failed": list(failed),
                          "steps": options.steps,
                          "loss": losses, "weights": own.hex(), "same": same}), flush=True)
    print(f"rank {rank}: loss {first:.4f} -> {last:.4f}, weights {own.hex()[:16]}"
          f"{', the same on all survivors' if same else ': NOT THE SAME on all survivors'}", flush=True)
    dist.destroy_process_group()
    return 0 if same and last < first else 1


if __name__ == "__main__":
    sys.exit(main())
