"""What a rank does in the jobs of torch_test: torch_ranks.py NAME [ARGUMENT]. A wrong result is an exception, and so
an exit code."""
import copy
import functools
import hashlib
import operator
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ucft
import ucft.torch
from ranks import die, raises

torch.set_num_threads(1)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
Op = dist.ReduceOp


def init(**arguments):
    dist.init_process_group("ucft", init_method="ucft://", **arguments)
    return dist.get_rank(), dist.get_world_size()


def equal(one, other):
    assert one.dtype == other.dtype and torch.equal(one, other), f"{one} is not {other}"


def until_dead(rank):
    while rank not in ucft.torch.failed():
        time.sleep(0.001)


# ---- collectives ----------------------------------------------------------------------------------------------------

def given(rank, dtype, count=37):
    """What a rank gives: small whole numbers, whose sums and products are exact in every type."""
    numbers = torch.randint(1, 3, (count,), generator=torch.Generator().manual_seed(rank))
    return (numbers > 1) if dtype == torch.bool else numbers.to(dtype)


def combined(op, parts):
    dtype = parts[0].dtype
    if dtype == torch.bool:
        return functools.reduce({Op.SUM: operator.or_, Op.MAX: operator.or_, Op.BOR: operator.or_,
                                 Op.PRODUCT: operator.and_,
                                 Op.MIN: operator.and_, Op.BAND: operator.and_, Op.BXOR: operator.xor}[op], parts)
    if op == Op.AVG:
        wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
        return (sum(part.to(wide) for part in parts) / len(parts)).to(dtype)
    return functools.reduce({Op.SUM: operator.add, Op.PRODUCT: operator.mul, Op.MIN: torch.minimum,
                             Op.MAX: torch.maximum,
                             Op.BAND: operator.and_, Op.BOR: operator.or_, Op.BXOR: operator.xor}[op], parts)


ARITHMETIC, ORDER, BITS = (Op.SUM, Op.PRODUCT), (Op.MIN, Op.MAX), (Op.BAND, Op.BOR, Op.BXOR)
OPERATORS = {**{t: ARITHMETIC + ORDER + (Op.AVG,) for t in FLOATS}, **{t: ARITHMETIC + ORDER + BITS for t in INTEGERS},
             **{t: ARITHMETIC + (Op.AVG,) for t in COMPLEX}, torch.bool: ARITHMETIC + ORDER + BITS}


def options_of(kind, **values):
    options = kind()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def collectives():
    me, n = init()
    group = dist.group.WORLD
    for dtype, operators in OPERATORS.items():
        parts = [given(rank, dtype) for rank in range(n)]
        for op in operators:
            tensor = parts[me].clone()
            work = group.allreduce([tensor], options_of(dist.AllreduceOptions, reduceOp=op))
            work.wait()
            equal(tensor, combined(op, parts))
            assert (ucft.torch.missing(work), ucft.torch.contributors(work)) == ((), n)
            root = (me + int(tensor.numel())) % 1 or len(operators) % n
            tensor = parts[me].clone()
            work = group.reduce([tensor], options_of(dist.ReduceOptions, reduceOp=op, rootRank=root))
            work.wait()
            equal(tensor, combined(op, parts) if me == root else parts[me])
            assert ucft.torch.root(work) == root and (ucft.torch.missing(work) is None) == (me != root)
        for root in range(n):
            tensor = parts[me].clone()
            dist.broadcast(tensor, root)
            equal(tensor, parts[root])
        outputs = [torch.zeros_like(part) for part in parts]
        dist.all_gather(outputs, parts[me])
        for output, part in zip(outputs, parts):
            equal(output, part)
        output = torch.zeros(n * 37, dtype=dtype)
        dist._all_gather_base(output, parts[me])
        equal(output, torch.cat(parts))
        own = torch.zeros(n, 37, dtype=dtype)
        own[me] = parts[me]
        dist._all_gather_base(own.view(-1), own[me])
        equal(own.view(-1), torch.cat(parts))
        pieces = [parts[me][:5].clone(), parts[me][5:].clone().view(4, 8)]
        group.allreduce_coalesced(pieces, options_of(dist.AllreduceCoalescedOptions, reduceOp=operators[0])).wait()
        equal(torch.cat([piece.view(-1) for piece in pieces]), combined(operators[0], parts))
    wave = torch.full((3,), complex(me, 1), dtype=torch.complex64)
    dist.all_reduce(wave)
    equal(wave, torch.full((3,), complex(n * (n - 1) / 2, n), dtype=torch.complex64))
    layouts(me, n)
    for shape in ((), (0,), (2, 0, 3), (4, 5)):
        tensor = torch.ones(shape)
        dist.all_reduce(tensor)
        equal(tensor, torch.full(shape, float(n)))
        dist.broadcast(tensor, 0)
        outputs = [torch.zeros(shape) for _ in range(n)]
        dist.all_gather(outputs, torch.full(shape, float(me)))
        equal(torch.stack(outputs), torch.stack([torch.full(shape, float(rank)) for rank in range(n)]))
    large = torch.full((1 << 20,), float(me))
    dist.all_reduce(large)
    equal(large, torch.full((1 << 20,), n * (n - 1) / 2))
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": me, "name": "x" * me})
    assert objects == [{"rank": rank, "name": "x" * rank} for rank in range(n)]
    told = [("from 0", me)] if me == 0 else [None]
    dist.broadcast_object_list(told)
    assert told == [("from 0", 0)]
    dist.barrier()
    assert dist.get_backend() == "ucft" and ucft.torch.failed() == ()
    dist.destroy_process_group()


def layouts(me, n):
    """Tensors that are dense but not contiguous are taken as they lie; what is gathered goes to any place."""
    group = dist.group.WORLD
    whole = lambda rank: torch.arange(120.0).view(2, 3, 4, 5) + 1000 * rank
    total = sum(whole(rank) for rank in range(n))
    lay = {"channels_last": lambda x: x.to(memory_format=torch.channels_last), "contiguous": lambda x: x.clone(),
           "transposed": lambda x: x.transpose(0, 3).contiguous().transpose(0, 3),
           "a view": lambda x: torch.stack([x, x])[1].permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)}
    gaps = lambda: torch.full((2, 3, 4, 10), -1.0)[..., ::2]
    for name, given in lay.items():
        strides = given(whole(me)).stride()
        assert (name == "contiguous") == given(whole(me)).is_contiguous()
        tensor = given(whole(me))
        dist.all_reduce(tensor)
        equal(tensor, total)
        leaf = given(whole(me)).requires_grad_()
        dist.all_reduce(leaf.detach())
        equal(leaf.detach(), total)
        assert tensor.stride() == strides == leaf.stride(), name
        for root in range(n):
            tensor = given(whole(me))
            dist.reduce(tensor, root)
            equal(tensor, total if me == root else whole(me))
            tensor = given(whole(me))
            dist.broadcast(tensor, root)
            equal(tensor, whole(root))
        for place in (*lay.values(), lambda _: gaps()):
            outputs = [place(torch.zeros(2, 3, 4, 5)) for _ in range(n)]
            dist.all_gather(outputs, given(whole(me)))
            for rank, output in enumerate(outputs):
                equal(output, whole(rank))
        outputs = [given(torch.zeros(2, 3, 4, 5)).requires_grad_() for _ in range(n)]
        dist.all_gather(outputs, given(whole(me)).requires_grad_())
        equal(outputs[n - 1].detach(), whole(n - 1))
        pieces = [given(whole(me)), gaps().copy_(whole(me)), torch.full((3,), float(me))]
        group.allreduce_coalesced(pieces, dist.AllreduceCoalescedOptions()).wait()
        equal(pieces[0], total)
        equal(pieces[1], total)
        assert (pieces[1]._base[..., 1::2] == -1).all()
    outputs = [torch.full((4, 8), -1.0)[:, ::2] for _ in range(n)]
    dist.all_gather(outputs, torch.full((4, 8), float(me))[:, 1::2])
    for rank, output in enumerate(outputs):
        equal(output, torch.full((4, 4), float(rank)))
        assert (output._base[:, 1::2] == -1).all()  # the gaps are left alone


def refused():
    me, n = init()
    x = torch.zeros(4, 4)
    refuse = lambda words, *arguments, **named: raises(ValueError, words, *arguments, **named)
    error = refuse(["allreduce", "tensor", "gaps", "contiguous"], dist.all_reduce, x[:, 1])
    assert isinstance(error, ucft.InvalidParamError) and error.status == "UCFT_ERR_INVALID_PARAM"
    refuse(["allreduce", "Sparse"], dist.all_reduce, x.to_sparse())
    # by c10d itself
    raises(NotImplementedError, ["c10d::allreduce_", "Meta"], dist.all_reduce, torch.empty(4, device="meta"))
    refuse(["allreduce", "QInt8"], dist.all_reduce, torch.quantize_per_tensor(x, 1.0, 0, torch.qint8))
    wave = torch.zeros(4, dtype=torch.complex64)
    refuse(["_allgather_base", "lazily"], dist.group.WORLD._allgather_base, torch.zeros(8, dtype=torch.complex64),
           wave.conj())
    refuse(["reduce", "AVG", "Int", "contributors"], dist.reduce, x.int(), 0, Op.AVG)
    refuse(["allreduce", "BAND", "Float"], dist.all_reduce, x, Op.BAND)
    refuse(["allreduce", "AVG", "Bool"], dist.all_reduce, x.bool(), Op.AVG)
    refuse(["allreduce", "MIN", "ComplexFloat"], dist.group.WORLD.allreduce, [x.to(torch.complex64)],
           options_of(dist.AllreduceOptions, reduceOp=Op.MIN))
    refuse(["allreduce", "PREMUL_SUM"], dist.all_reduce, x, dist._make_nccl_premul_sum(2.0))
    refuse(["allreduce", "one", "2"], dist.group.WORLD.allreduce, [x, x])
    refuse(["broadcast", "root", "7"], dist.group.WORLD.broadcast, [x], options_of(dist.BroadcastOptions, rootRank=7))
    refuse(["reduce", "root", "-1"], dist.group.WORLD.reduce, [x], options_of(dist.ReduceOptions, rootRank=-1))
    refuse(["allgather", "outputs", "1", "2"], dist.all_gather, [x.clone()], x)
    refuse(["allgather", "output 1", "elements"], dist.all_gather, [x.clone(), torch.zeros(3)], x)
    refuse(["broadcast", "tensor", "gaps"], dist.broadcast, x[:, 1], 0)
    refuse(["reduce", "tensor", "gaps", "share memory"], dist.reduce, torch.zeros(1).expand(4), 0)
    refuse(["allgather", "output 1", "share memory"], dist.all_gather, [x.clone(), torch.zeros(4, 1).expand(4, 4)], x)
    rows = x[:1].expand(4, 4)
    refuse(["allreduce_coalesced", "tensor 0", "share memory"], dist.group.WORLD.allreduce_coalesced, [rows])
    refuse(["_allgather_base", "output", "contiguous"], dist._all_gather_base, torch.zeros(8, 4).t(), x)
    refuse(["_allgather_base", "17", "16"], dist._all_gather_base, torch.zeros(17), x.view(-1))
    refuse(["_allgather_base", "type"], dist._all_gather_base, torch.zeros(32).double(), x.view(-1))
    whole = torch.zeros(32)
    refuse(["_allgather_base", "overlaps"], dist._all_gather_base, whole, whole[8:24])
    refuse(["allreduce_coalesced", "tensor 1", "type"], dist.group.WORLD.allreduce_coalesced, [x, x.int()])
    refuse(["allreduce_coalesced"], dist.group.WORLD.allreduce_coalesced, [])
    refuse(["work", "another backend"], ucft.torch.missing, dist.new_group(backend="gloo").allreduce([x]))
    refuse(["group", "ucft"], ucft.torch.failed, dist.new_group(backend="gloo"))
    missing = functools.partial(raises, RuntimeError)
    missing(["no send", "gloo"], dist.send, x, 1 - me)
    missing(["no recv", "gloo"], dist.recv, x, 1 - me)
    missing(["no gather", "gloo"], dist.gather, x, [x.clone(), x.clone()] if me == 0 else None)
    missing(["no scatter", "gloo"], dist.scatter, x.clone(), [x.clone(), x.clone()] if me == 0 else None)
    missing(["no reduce_scatter", "gloo"], dist.reduce_scatter, x.clone(), [x.clone(), x.clone()])
    missing(["no all_to_all", "gloo"], dist.all_to_all, [x.clone(), x.clone()], [x.clone(), x.clone()])
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == n  # nothing of it was sent


# ---- works ----------------------------------------------------------------------------------------------------------

def works(folder):
    me, n = init(timeout=timedelta(seconds=60))
    several = [(torch.full((1 + 1000 * i,), float(i + me)), i) for i in range(40)]  # more than are in flight at a time
    running = [dist.all_reduce(tensor, async_op=True) for tensor, _ in several]
    for work, (tensor, i) in reversed(list(zip(running, several))):
        assert work.wait() and work.is_completed()
        equal(tensor, torch.full_like(tensor, n * i + n * (n - 1) / 2))
        assert work.result()[0] is not None and work.get_future().done()
        equal(work.get_future().value()[0], tensor)

    tensor = torch.full((100,), 1.0)  # complete without anybody who waits
    work = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    equal(tensor, torch.full((100,), float(n)))

    done, chained = threading.Event(), torch.ones(3)
    future = dist.all_reduce(chained, async_op=True).get_future()
    again = future.then(lambda first: dist.all_reduce(first.value()[0], async_op=True).get_future().wait()[0])
    again.add_done_callback(lambda _: done.set())
    equal(again.wait(), torch.full((3,), float(n * n)))
    assert done.wait(60)
    assert torch.futures.collect_all([dist.barrier(async_op=True).get_future() for _ in range(20)]).wait() is not None

    step = os.path.join(folder, "step")
    if me == 0:
        tensor = torch.ones(3)
        work = dist.all_reduce(tensor, async_op=True)
        assert not work.is_completed()
        words = ["ALLREDUCE", "0.05 s; it goes on: it waits for rank 1 ("]
        error = raises(TimeoutError, words, work.wait, timedelta(milliseconds=50))
        assert isinstance(error, ucft.TimedOutError)
        raises(ucft.StateError, ["not complete"], ucft.torch.missing, work)
        behind = dist.all_reduce(torch.ones(3), async_op=True)  # waits for the same rank
        raises(TimeoutError, [words[1]], behind.wait, timedelta(milliseconds=50))
        open(step, "w").close()
        work.wait()
        equal(tensor, torch.full((3,), float(n)))
        threads = [threading.Thread(target=dist.barrier) for _ in range(8)]  # several at once
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        while not os.path.exists(step):
            time.sleep(0.001)
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3))
        for _ in range(8):
            dist.barrier()
    dist.all_reduce(torch.ones(1 << 20), async_op=True)  # nobody waits for it: leaving does


def groups():
    me, n = init()
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    odd = dist.new_group([1, 3])
    everybody = [dist.new_group() for _ in range(2)]
    gloo = dist.new_group(backend="gloo")
    mine = pairs[me // 2]
    for i in range(50):
        running, expected = [], []
        for group, members in [(mine, [me // 2 * 2, me // 2 * 2 + 1])] + [(each, range(n))
                                                                          for each in everybody + [None, gloo]] + \
                ([(odd, [1, 3])] if me in (1, 3) else []):
            tensor = torch.full((10,), float(me + i))
            running.append((dist.all_reduce(tensor, group=group, async_op=True), tensor))
            expected.append(float(sum(rank + i for rank in members)))
        for (work, tensor), value in reversed(list(zip(running, expected))):
            work.wait()
            equal(tensor, torch.full((10,), value))
    tensor = torch.full((2,), me)
    dist.broadcast(tensor, me // 2 * 2 + 1, group=mine)  # src is a rank of the job
    assert tensor.tolist() == [me // 2 * 2 + 1] * 2
    dist.barrier()
    dist.destroy_process_group(mine)
    dist.barrier()
    if me == 3:
        die()
    until_dead(3)
    for group, members in [(each, range(n)) for each in everybody] + ([(odd, [1, 3])] if me == 1 else []):
        tensor = torch.full((2,), me)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        work.wait()
        assert tensor.tolist() == [sum(set(members) - {3})] * 2
        place = list(members).index(3)
        assert ucft.torch.missing(work) == (place,) and ucft.torch.failed(group) == (place,)  # ranks of the group
    print("survived", flush=True)


# ---- deaths ---------------------------------------------------------------------------------------------------------

def deaths():
    """Rank 0, and later rank 1, dies; five ranks."""
    me, n = init()
    for step in range(200):
        if (me, step) in ((0, 60), (1, 120)):
            die()
        tensor = torch.tensor([me + 1.0, step])
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        ranks = [rank for rank in range(n) if rank not in ucft.torch.missing(work)]
        equal(tensor, torch.tensor([sum(rank + 1.0 for rank in ranks), float(step * len(ranks))]))
        assert ucft.torch.contributors(work) == len(ranks)
        # All at once: what follows a broadcast that begins again is in the same order everywhere.
        told, other, own = torch.full((3,), me), torch.full((2,), me + 10), torch.full((1,), float(me))
        running = [dist.broadcast(told, 0, async_op=True), dist.all_reduce(own, async_op=True),
                   dist.broadcast(other, 1, async_op=True)]
        for each in running:
            each.wait()
        givers = [ucft.torch.root(running[0]), ucft.torch.root(running[2])]
        assert told.tolist() == givers[:1] * 3 and other.tolist() == [givers[1] + 10] * 2
        agreed = torch.tensor([givers + told.tolist()])
        all_of_them = [torch.full_like(agreed, -1) for _ in range(n)]
        work = dist.all_gather(all_of_them, agreed, async_op=True)
        work.wait()
        for rank, each in enumerate(all_of_them):
            equal(each, torch.full_like(agreed, -1) if rank in ucft.torch.missing(work) else agreed)
    assert givers == [2, 2] and ucft.torch.failed() == (0, 1)
    output = torch.full((n, 2), -1)
    dist._all_gather_base(output.view(-1), torch.full((2,), me))
    assert output[:, 0].tolist() == [-1, -1] + list(range(2, n))
    reduced = torch.ones(2)
    work = dist.reduce(reduced, 0, async_op=True)
    error = raises(RuntimeError, ["rank 0"], work.wait)
    assert isinstance(error, ucft.RootFailedError) and error.status == "UCFT_ERR_ROOT_FAILED"
    raises(ucft.RootFailedError, [], ucft.torch.missing, work)
    raises(RuntimeError, ["rank 0"], work.get_future().wait)
    equal(reduced, torch.ones(2))
    dist.reduce(reduced, 3)
    equal(reduced, torch.full((2,), 3.0) if me == 3 else torch.ones(2))
    dist.barrier()
    print("survived", flush=True)


def exception():
    """A rank that ends by an exception has failed; the others go on. Whoever leaves has not."""
    me, n = init()
    if me == 1:
        raise RuntimeError("this rank has enough")
    until_dead(1)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == n - 1
    dist.destroy_process_group()
    print("survived", flush=True)


# ---- training -------------------------------------------------------------------------------------------------------

def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().numpy().tobytes())
    return torch.tensor(list(sha.digest()), dtype=torch.uint8)


def same_on_survivors(tensors):
    mine = digest(tensors)
    blocks = [mine.clone() for _ in range(dist.get_world_size())]
    dist.all_gather(blocks, mine)
    return all(torch.equal(block, mine) for block in blocks)


def make_model(hidden=24):
    torch.manual_seed(7)
    layers = [torch.nn.Linear(8, hidden)]
    for _ in range(4):
        layers += [torch.nn.BatchNorm1d(hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(hidden, 1))


class Buckets:
    """Small ones, so that there are several in a small model: of these bytes, but for the first iteration."""

    def __enter__(self):
        self.before, dist._DEFAULT_FIRST_BUCKET_BYTES = dist._DEFAULT_FIRST_BUCKET_BYTES, 3000

    def __exit__(self, *_):
        dist._DEFAULT_FIRST_BUCKET_BYTES = self.before


def training(kills, layer):
    """kills: RANK@STEP,...: in the middle of that step's backward pass, at the gradient of the n-th linear layer
    from the front."""
    me, n = init()
    kill = dict(map(int, each.split("@")) for each in kills.split(","))
    with Buckets():
        model = DistributedDataParallel(make_model(), bucket_cap_mb=0.003)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    step, seen = 0, []  # steps in which this rank had a gradient

    def hook(gradient):
        seen.append(step)
        if kill.get(me) == step:
            die()
    [each for each in model.module if isinstance(each, torch.nn.Linear)][int(layer)].weight.register_hook(hook)
    criterion = lambda net, inputs: torch.nn.functional.mse_loss(net(inputs), inputs.sum(1, keepdim=True) / 3)
    unseen = torch.randn(512, 8, generator=torch.Generator().manual_seed(100))
    loss = lambda: criterion(copy.deepcopy(model.module), unseen).item()
    data, losses = torch.Generator().manual_seed(me), [loss()]
    for step in range(40):
        inputs = torch.randn(32, 8, generator=data)
        optimizer.zero_grad()
        criterion(model, inputs).backward()
        optimizer.step()
        assert same_on_survivors(model.parameters()), step
        if step in kill.values():
            losses.append(loss())
    losses.append(loss())
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.7 * losses[0], losses
    model(inputs)  # buffers are what the lowest live rank has
    assert seen == list(range(40)) and ucft.torch.failed() == tuple(sorted(kill))
    print(f"survived {digest(model.parameters())[:8].tolist()}", flush=True)


def averages():
    """Known gradients, and a death between the first bucket and the last: what is divided by which number of ranks."""
    me, n = init()
    victim, works, dying = 1, [], False
    mine = float(me + 1)  # each element of this rank's gradients
    mean = lambda ranks: (torch.tensor(sum(rank + 1.0 for rank in ranks)) / len(ranks)).item()
    everybody, survivors = range(n), [rank for rank in range(n) if rank != victim]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = (torch.nn.Parameter(torch.zeros(1000)) for _ in range(2))

        def forward(self, value):
            return (self.one * value).sum() + (self.other * value).sum()

    def recorded(state, bucket):  # average_hook, but that its works can be asked
        if dying and works:
            works[0].wait()  # what this rank gave to the first bucket has arrived for certain
            die()
        works.append(dist.all_reduce(bucket.buffer(), op=Op.AVG, async_op=True))
        return works[-1].get_future().then(lambda future: future.value()[0])

    def gradients(model):
        model.zero_grad()
        works.clear()
        model(mine).backward()
        for parameter in model.parameters():
            equal(parameter.grad, parameter.grad[0].expand(1000))
        return sorted(parameter.grad[0].item() for parameter in model.parameters())

    with Buckets():
        hooked, plain, killed = (DistributedDataParallel(Model(), bucket_cap_mb=0.003) for _ in range(3))
    hooked.register_comm_hook(None, ucft.torch.average_hook)
    killed.register_comm_hook(dist.group.WORLD, recorded)
    for model in (hooked, plain, killed) * 2:  # buckets are made anew after the first time
        assert gradients(model) == [mean(everybody)] * 2
    dying = me == victim
    assert gradients(killed) == [mean(everybody), mean(survivors)]
    assert [ucft.torch.missing(work) for work in works] == [(), (victim,)]
    assert gradients(hooked) == gradients(killed) == [mean(survivors)] * 2
    assert gradients(plain) == [sum(rank + 1.0 for rank in survivors) / n] * 2
    print("survived", flush=True)


# ---- other launchers ------------------------------------------------------------------------------------------------

def member(rank, size, port, folder, method):
    dist.init_process_group("ucft", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size] * 4
    if rank == 0:
        die()  # and with it the store
    until_dead(0)
    for _ in range(20):
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [size - 1] * 4
        dist.broadcast(tensor, 0)
    open(os.path.join(folder, f"{method}.{rank}"), "w").close()


def multiprocessing(folder):
    import socket

    import torch.multiprocessing
    for method in ("spawn", "fork"):
        with socket.socket() as held:  # until the end, so that no other program gets that port
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            context = torch.multiprocessing.get_context(method)
            ranks = [context.Process(target=member, args=(rank, 3, port, folder, method)) for rank in range(3)]
            for each in ranks:
                each.start()
            for each in ranks:
                each.join()
        assert [each.exitcode for each in ranks] == [-signal.SIGKILL, 0, 0]
        assert {f"{method}.1", f"{method}.2"} <= set(os.listdir(folder))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
