"""What a rank does in the jobs of python_test: ranks.py NAME [ARGUMENT]. A wrong result is an exception, and so an
exit code."""
import array
import asyncio
import os
import pickle
import signal
import sys
import threading
import time
import weakref

if os.environ.get("UCFT_TEST_WITHOUT_NUMPY"):
    sys.modules["numpy"] = None
    np = None
else:
    import numpy as np

import ucft


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def raises(kind, words, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert all(word in str(error) for word in words), f"{error!r} doesn't say {words}"
        return error
    raise AssertionError(f"{function} {arguments} {named}: no {kind.__name__}")


# ---- arrays ---------------------------------------------------------------------------------------------------------

def arrays():
    world = ucft.init()
    me, n = world.rank, world.size
    for dtype in "b B h H i I l L q Q e f d F D".split():
        send = (np.arange(100) % 5 + me).astype(dtype)
        expected = sum((np.arange(100) % 5 + rank).astype(dtype) for rank in range(n))
        result = world.allreduce(send)
        assert result.value.dtype == send.dtype and (result.value == expected).all(), dtype
        assert (result.contributors, result.missing, result.attempts >= 1) == (n, (), True)
        out = np.zeros_like(send)
        assert world.allreduce(send, out).value is out and (out == expected).all()
        assert world.allreduce(ucft.IN_PLACE, out, ucft.MAX if dtype not in "FD" else ucft.SUM).value is out
        assert world.allreduce(send, send).value is send and (send == expected).all()
    flags = np.array([me == 0, True, False])
    assert world.allreduce(flags, op=ucft.LAND).value.tolist() == [n == 1, True, False]
    assert world.allreduce(flags, op=ucft.LOR).value.tolist() == [True, True, False]
    assert world.allreduce(np.array([float(me)]), op=ucft.AVG).value[0] == (n - 1) / 2
    bits = np.array([0x3F80, 0x4000], dtype=np.uint16)  # 1 and 2
    assert world.allreduce(bits, dtype=ucft.BFLOAT16, op=ucft.MAX).value.tolist() == [0x3F80, 0x4000]
    assert world.allgather(bytes([me, 0])).value.tolist() == [[rank, 0] for rank in range(n)]
    pair = np.array([(abs(me - 1), me)], dtype=[("value", "f4"), ("location", "i4")])
    assert world.allreduce(pair, dtype=ucft.FLOAT_INT32, op=ucft.MINLOC).value.tolist() == [(0, 1) if n > 1 else (1, 0)]
    assert world.allreduce(np.full((2, 3), me)).value.shape == (2, 3)
    assert world.allreduce(2).value == 2 * n and world.allreduce([1.5, me]).value.tolist() == [1.5 * n, n * (n - 1) / 2]
    assert world.allreduce(np.zeros(0)).value.size == 0
    without_numpy(world)
    world.context.close()


def without_numpy(world=None):
    world = world or ucft.init()
    me, n = world.rank, world.size
    values = array.array("d", [me, 1])
    world.allreduce(values, values)
    assert list(values) == [n * (n - 1) / 2, n]
    memory = bytearray([1, me])
    world.allreduce(memory, memory, ucft.MAX)
    assert list(memory) == [1, n - 1 if n > 1 else 0] or n == 1
    result = world.allreduce(array.array("i", [me]))
    assert memoryview(result.value).tolist() == [n * (n - 1) // 2]
    words = array.array("H", [0x3F80])
    assert world.allreduce(memoryview(words), dtype=ucft.BFLOAT16).contributors == n
    raises(ucft.InvalidParamError, ["recv"], world.allreduce, values, b"0123456789abcdef")  # can't be written

    def keep_larger(a, b):
        for i in range(len(a)):
            b[i] = max(a[i], b[i])
    assert memoryview(world.allreduce(array.array("d", [me, -me]), op=keep_larger).value).tolist() == [n - 1, 0]


# ---- exact sums -----------------------------------------------------------------------------------------------------

def exact_sums():
    from fractions import Fraction
    import math
    world = ucft.init()
    me, n = world.rank, world.size
    for dtype in (np.float32, np.float64):
        x = (np.random.default_rng(1).standard_normal(3000) * np.exp2(np.arange(3000) % 50)).astype(dtype)
        y = np.flip(x) * dtype(3)
        mine = slice(len(x) * me * me // n // n, len(x) * (me + 1) * (me + 1) // n // n)
        whole = ucft.Accumulator().add(x)
        assert whole.value() == math.fsum(x) and whole.value(ucft.FLOAT) == np.float32(whole.value())
        own = ucft.Accumulator().add(x[mine])
        assert world.allreduce(own).value == whole
        again = world.allreduce(own, own)
        assert again.value is own and own == whole
        dot = world.allreduce(ucft.Accumulator().add_products(x[mine], y[mine])).value
        exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y))
        assert dot.value() == float(exact)
        norm = world.allreduce(ucft.Accumulator().add_squares(x[mine])).value
        assert abs(norm.root() / math.sqrt(sum(Fraction(float(a)) ** 2 for a in x)) - 1) < 1e-15
        table = np.zeros((2, 112), dtype=np.int64)
        table[0], table[1] = np.asarray(ucft.Accumulator().add(x[mine])), np.asarray(ucft.Accumulator().add(y[mine]))
        world.allreduce(table, table, dtype=ucft.ACCUMULATOR)
        assert ucft.Accumulator(table[0]) == whole and ucft.Accumulator(table[1]) == ucft.Accumulator().add(y)
        rows = world.allgather(ucft.Accumulator().add(x[mine])).value
        merged = ucft.Accumulator()
        for row in rows:
            merged += ucft.Accumulator(row)
        assert merged == whole
        square = x[:2500].reshape(50, 50)
        for strided in (square.T, square[::2, ::-3], np.asfortranarray(square), x[::7], x[::-1]):
            assert ucft.Accumulator().add(strided) == ucft.Accumulator().add(strided.copy())
        assert ucft.Accumulator().add_products(square, square.T) == ucft.Accumulator().add_products(square, square.T.copy())
        assert pickle.loads(pickle.dumps(whole)) == whole and ucft.Accumulator(bytes(whole)) == whole
    assert ucft.Accumulator().add(2).add([1.5, 3]).value() == 6.5 and repr(ucft.Accumulator().add(2)) == "<ucft.Accumulator: 2>"
    parts = [ucft.Accumulator() for _ in range(4)]
    threads = [threading.Thread(target=part.add, args=(x[i::4],)) for i, part in enumerate(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in parts[1:]:
        parts[0] += part
    assert parts[0] == whole != parts[1]
    raises(ucft.InvalidParamError, ["dtype is 3 (int64)"], ucft.Accumulator().add, np.arange(3))
    raises(ucft.InvalidParamError, ["a and b differ"], ucft.Accumulator().add_products, x, x[:3])
    raises(ucft.InvalidParamError, ["words: 24 bytes"], ucft.Accumulator, x[:3])
    raises(ucft.InvalidParamError, ["no accumulator"], ucft.Accumulator, np.arange(112) + 5)
    raises(ucft.InvalidParamError, ["it takes UCFT_SUM only"], world.allreduce, whole, op=ucft.MAX)
    raises(TypeError, ["unhashable"], hash, whole)
    world.context.close()


# ---- collectives ----------------------------------------------------------------------------------------------------

def collectives():
    with ucft.Context(f=1) as context:
        world = context.world
        assert world is context.world and world.context is context and context.is_open
        assert (context.rank, context.size) == (world.rank, world.size) and "UCFT_F=1" in context.settings
        me, n = world.rank, world.size
        for root in range(n):
            result = world.reduce(np.full(3, me + 1.0), root=root)
            assert (result.value is None) == (me != root)
            assert me != root or result.value.tolist() == [n * (n + 1) / 2] * 3
            own = np.full(3, me + 1.0)
            world.reduce(own, own, root=root)
            assert own.tolist() == ([n * (n + 1) / 2] * 3 if me == root else [me + 1.0] * 3)
            rows = np.arange(n * 3.0).reshape(n, 3) + root
            share = world.scatter(rows, root=root) if me == root else world.scatter(None, np.zeros(3), root)
            assert (share.value == np.arange(3) + 3 * me + root).all()
            share = world.iscatter(rows, ucft.IN_PLACE, root) if me == root else world.iscatter(None, np.zeros(3), root)
            assert (share.wait().value is None) == (me == root)
            counts = [r % 3 for r in range(n)]
            first = sum(counts[:me])
            share = np.zeros(counts[me])
            world.scatterv(np.arange(float(sum(counts))) if me == root else None, share, counts, root)
            assert share.tolist() == list(range(first, first + counts[me]))
            blocks = world.gather(np.array([me, 2 * me]), root=root).value
            assert (blocks is None) == (me != root)
            assert me != root or blocks.tolist() == [[r, 2 * r] for r in range(n)]
            counts, gathered = list(range(1, n + 1)), np.full(n * (n + 1) // 2, -1)
            world.gatherv(np.full(me + 1, me), gathered if me == root else None, counts, root)
            assert gathered.tolist() == ([r for r in range(n) for _ in range(r + 1)] if me == root else
                                         [-1] * len(gathered))
            own = np.zeros((n, 2))
            own[me] = me + 1
            if me == root:
                assert (world.gather(ucft.IN_PLACE, own, root).value == np.arange(1, n + 1)[:, None]).all()
            else:
                assert world.igather(own[me], root=root).wait().value is None
            buffer = np.full((2, 2), me, dtype=np.int16)
            assert world.broadcast(buffer, root).value is buffer and (buffer == root).all()
        everybody = np.arange(n * 3.0).reshape(n, 3)
        assert (world.scan(np.full(3, me + 1.0)).value == (me + 1) * (me + 2) / 2).all()
        before = np.full(2, -1)
        world.iexscan(np.array([me, 2 * me]), before, op=ucft.MAX).wait()
        assert before.tolist() == ([-1, -1] if me == 0 else [me - 1, 2 * me - 2])
        rows = np.arange(2.0 * n).reshape(n, 2) + 100 * me
        assert (world.alltoall(rows).value == [[100 * r + 2 * me, 100 * r + 2 * me + 1] for r in range(n)]).all()
        assert world.alltoall(ucft.IN_PLACE, rows).value is rows and rows[0, 0] == 2 * me
        given, wanted = [(me + 2 * r) % 3 for r in range(n)], [(r + 2 * me) % 3 for r in range(n)]
        words, places = np.concatenate([np.full(given[r], 10 * me + r) for r in range(n)]), [3 * r for r in range(n)]
        into = np.full(3 * n, -1)
        world.ialltoallv(words, given, into, wanted, recv_displacements=places).wait()
        assert into.tolist() == [x for r in range(n) for x in [10 * r + me] * wanted[r] + [-1] * (3 - wanted[r])]
        exchanged = world.alltoall(rows).value
        assert (world.alltoallv(ucft.IN_PLACE, None, rows, [2] * n).value == exchanged).all()
        assert (world.reduce_scatter(everybody + me).value == n * everybody[me] + n * (n - 1) / 2).all()
        assert world.reduce_scatter(np.arange(2 * n) * (me + 1), op=ucft.MAX).value.tolist() == [2 * me * n,
                                                                                               (2 * me + 1) * n]
        agreed = world.agree(~(1 << me) & 0xff)
        assert agreed.value.tolist() == [0xff & ~((1 << n) - 1)] and agreed.missing == ()
        sums = world.iallreduce(np.array([me]), options=ucft.Options(uniform=1)).wait()
        assert sums.value.tolist() == [n * (n - 1) / 2]
        own = np.arange(float(n))
        assert world.reduce_scatter(ucft.IN_PLACE, own).value is own and own[0] == n * me
        counts, share = list(range(1, n + 1)), np.zeros(me + 1)
        world.ireduce_scatterv(np.arange(float(sum(counts))), share, counts).wait()
        assert (share == n * np.arange(sum(counts[:me]), sum(counts[:me + 1]))).all()
        gathered = world.allgather(np.array([[me, 2 * me]])).value
        assert gathered.shape == (n, 1, 2) and gathered.tolist() == [[[r, 2 * r]] for r in range(n)]
        own = np.zeros((n, 2))
        own[me] = me + 1
        assert (world.allgather(ucft.IN_PLACE, own).value == np.arange(1, n + 1)[:, None]).all()
        counts = list(range(1, n + 1))
        all_of_them = np.full(sum(counts) + n, -1)
        places = [sum(counts[:r]) + r for r in range(n)]  # with a gap behind each
        world.allgatherv(np.full(me + 1, me), all_of_them, counts, places)
        assert all_of_them.tolist() == [x for r in range(n) for x in [r] * (r + 1) + [-1]]
        assert world.barrier().value is None
        gossip = world.gossip(np.array([float(me), 1.0]),
                              options=ucft.GossipOptions(eps=1e-9, aggregate=ucft.GossipAggregate.SUM))
        assert gossip.reached and gossip.error_bound <= 1e-9 and gossip.answer == ucft.GossipAnswer.ALL_RANKS
        assert abs(gossip.value[0] - n * (n - 1) / 2) < 1e-6
        hpflc = ucft.GossipAlgorithm.HPFLC
        for fields in ({}, {"cycles": 4, "repair_initial": -1}, {"cycles": -1, "repair_initial": 1}):
            gossip = world.gossip(np.array([float(me)]), options=ucft.GossipOptions(algorithm=hpflc, **fields))
            assert gossip.reached and abs(gossip.value[0] - (n - 1) / 2) <= 1e-5 * n, fields
        for fields, culprit in (({"cycles": 4}, "options.cycles is 4: pcf has none"),
                                ({"cycles": -2, "algorithm": hpflc}, "options.cycles is -2"),
                                ({"repair_initial": 1}, "options.repair_initial is 1: pcf has no checksums")):
            try:
                world.gossip(np.array([1.0]), options=ucft.GossipOptions(**fields))
            except ucft.Error as problem:
                assert culprit in str(problem), problem
            else:
                raise AssertionError(fields)
        for aggregate, extreme in ((ucft.GossipAggregate.MINIMUM, [-n + 1.0, 0.5]),
                                   (ucft.GossipAggregate.MAXIMUM, [0.0, n - 0.5])):
            gossip = world.gossip(np.array([-float(me), me + 0.5]), options=ucft.GossipOptions(aggregate=aggregate))
            assert list(gossip.value) == extreme and gossip.error_bound == 0 and gossip.reached, gossip.value
        gossip = world.gossip(np.array([me, 1], np.float16),
                              options=ucft.GossipOptions(aggregate=ucft.GossipAggregate.SUM))
        assert gossip.value.dtype == np.float16 and list(gossip.value) == [n * (n - 1) / 2,
                                                                           n] and gossip.error_bound < 1e-4
        third = world.gossip(np.array([1 if me == 0 else 0.333], np.float16))
        assert abs(float(third.value[0]) - (1 + (n - 1) * float(np.float16(0.333))) / n) <= third.error_bound <= 5e-4
        halves = np.array([0x3f80], np.uint16)   # 1
        assert world.gossip(halves, dtype=ucft.BFLOAT16).value[0] == 0x3f80
        running = world.igossip(np.array([1.0]))
        values, error = running.estimate()
        assert values.shape == (1,) and error >= 0 and 1 <= running.contributors() <= n
        assert running.wait().reached and running.contributors() == n
        part = world.split(me % 2, -me)
        assert part.size == (n + 1 - me % 2) // 2 and part.allreduce(1).value == part.size
        assert part.rank == (n - 1 - me) // 2
        assert (world.split(None if me == 0 else 0) is None) == (me == 0)
        copy = world.dup()
        options = ucft.Options(f=0, tree=ucft.Tree.KNOMIAL, arity=3, failure_info=ucft.FailureInfo.COUNT)
        assert copy.allreduce(np.ones(10), options=options).value.tolist() == [n] * 10
        copy.close()
        raises(ucft.ClosedError, [], copy.allreduce, 1)
    assert not context.is_open
    raises(ucft.ClosedError, [], world.barrier)


def refused():
    world = ucft.init()
    x = np.zeros((4, 4))
    refuse = lambda words, *arguments, **named: raises(ValueError, words, *arguments, **named)
    error = refuse(["send", "contiguous"], world.allreduce, x[:, 1])
    assert isinstance(error, ucft.InvalidParamError) and error.status == "UCFT_ERR_INVALID_PARAM" and error.code == -1
    refuse(["recv", "contiguous"], world.allreduce, x.T.copy(), np.asfortranarray(x))
    refuse(["send", "byte order"], world.allreduce, x.astype(">f8"))
    refuse(["recv", "3", "16"], world.allreduce, x, np.zeros(3))
    refuse(["recv", "type"], world.allreduce, x, np.zeros((4, 4), dtype="i8"))
    readonly = np.zeros((4, 4))
    readonly.flags.writeable = False
    refuse(["recv"], world.allreduce, x, readonly)
    refuse(["buffer"], world.broadcast, readonly)
    refuse(["IN_PLACE"], world.allreduce, ucft.IN_PLACE)
    refuse(["send", "None"], world.allreduce, None)
    refuse(["recv", "op="], world.allreduce, x, ucft.MAX)
    refuse(["recv", "op="], world.reduce, x, ucft.SUM, 0)
    refuse(["buffer", "float", "array"], world.broadcast, 1.0)
    assert repr(world) == f"<ucft.Communicator: rank {world.rank} of {world.size}>", repr(world)
    assert repr(world.context) == f"<ucft.Context: rank {world.rank} of {world.size}>", repr(world.context)
    refuse(["op"], world.allreduce, x, op="sum")
    refuse(["send", "masked"], world.allreduce, np.ma.array([1.0, 2.0], mask=[False, True]))
    refuse(["root"], world.reduce, x, root=world.size)
    if world.size > 1:
        refuse(["share", "ranks"], world.reduce_scatter, np.zeros(world.size + 1))
    refuse(["first dimension"], world.reduce_scatter, np.zeros((2 * world.size, 3)))
    refuse(["counts"], world.reduce_scatterv, x, np.zeros(1), [1] * (world.size + 1))
    refuse(["root"], world.scatter, np.zeros(world.size), np.zeros(1), root=world.size)
    refuse(["send"], world.scatter, None, root=world.rank)
    if world.size > 1:
        refuse(["share", "ranks"], world.alltoall, np.zeros(world.size + 1))
    ones = [1] * world.size
    refuse(["send_counts", "ranks"], world.alltoallv, np.zeros(world.size), ones + [1], np.zeros(world.size), ones)
    refuse(["send_counts"], world.alltoallv, np.zeros(world.size), None, np.zeros(world.size), ones)
    refuse(["send", "doesn't fit"], world.alltoallv, np.zeros(world.size - 1), ones, np.zeros(world.size), ones)
    refuse(["recv", "doesn't fit"], world.alltoallv, np.zeros(world.size), ones, np.zeros(world.size - 1), ones)
    refuse(["recv_displacements"], world.alltoallv, np.zeros(world.size), ones, np.zeros(world.size), ones,
           recv_displacements=[0])
    refuse(["takes"], world.scan, x, op=ucft.BAND)
    refuse(["recv", "exscan"], world.exscan, x, None)
    refuse(["counts"], world.scatterv, x, np.zeros(1), [1] * (world.size + 1), root=world.rank)
    refuse(["recv", "counts"], world.scatterv, None, np.zeros(1), [2] * world.size, root=(world.rank + 1) % world.size)
    refuse(["root"], world.gather, x, root=world.size)
    refuse(["in place", "root"], world.gather, ucft.IN_PLACE, x, (world.rank + 1) % world.size)
    refuse(["counts"], world.allgatherv, x, x, [1])
    refuse(["counts"], world.gatherv, x, x, [1])
    refuse(["in place", "root"], world.gatherv, ucft.IN_PLACE, x, [1] * world.size, (world.rank + 1) % world.size)
    refuse(["rank 1", "doesn't fit"], world.allgatherv, x, np.zeros(4), [4] + [1] * (world.size - 1))
    refuse(["timeout"], world.ibarrier().wait, timeout=-1.0)
    refuse([f"destination is {world.size}"], world.send, x, world.size)
    refuse(["destination is -1"], world.send, x, ucft.ANY_SOURCE)
    refuse([f"source is {world.size}", "ANY_SOURCE"], world.recv, x, world.size)
    refuse(["source is -2"], world.irecv, x, -2)
    refuse(["values", "contiguous"], world.send, x[:, 1], 0)
    refuse(["values", "format 'O'"], world.isend, ["a", None], 0)
    for nothing in (None, ucft.IN_PLACE):
        refuse(["values", "array"], world.send, nothing, 0)
    refuse(["out", "length"], world.recv, None)
    refuse(["out"], world.recv, readonly)
    for constant in (1.0, [1.0], ucft.IN_PLACE):
        refuse(["out", "can't be written"], world.irecv, constant)
    refuse(["out", "no whole number"], world.recv, bytearray(9), dtype=ucft.DOUBLE)
    refuse(["estimate", "gossip"], world.isend(1, world.rank).estimate)
    world.recv(np.zeros(1), world.rank)
    raises(TypeError, [], world.send, x)
    raises(TypeError, [], world.send, x, "0")
    raises(TypeError, [], world.recv)
    raises(TypeError, [], world.recv, x, 0, 2 ** 31)
    raises(ucft.Error, ["UCFT_MIN", "COMPLEX_DOUBLE"], world.allreduce, x.astype(complex), op=ucft.MIN)
    raises(TypeError, ["no option 'ff'"], ucft.Options, ff=1)
    raises(TypeError, [], world.allreduce)
    assert world.allreduce(1).value == world.size  # nothing of it was sent


# ---- messages -------------------------------------------------------------------------------------------------------

def messages():
    world = ucft.init()
    me, n = world.rank, world.size
    after, before = (me + 1) % n, (me - 1) % n  # alone: this rank itself

    def exchange(values, out, tag=0, **named):
        sent = world.isend(values, after, tag, **named)
        got = world.recv(out, before, tag, **named)
        assert sent.wait() is None and sent.test() and sent.result() is None
        assert got.value is out and (got.source, got.tag) == (before, tag), got
        return got

    for dtype in "b B h H i I l L q Q e f d F D ?".split():
        for count in (0, 1, 30, 2000, 2100, 40000):
            out = np.full(count + 3, 7).astype(dtype)
            assert exchange((np.arange(count) % 5 + me).astype(dtype), out, count).count == count
            assert (out[:count] == (np.arange(count) % 5 + before).astype(dtype)).all(), (dtype, count)
            assert (out[count:] == np.full(3, 7).astype(dtype)).all(), (dtype, count)
    for values, expected in ((me + 0.5, [before + 0.5]), ([me, 2.5], [before, 2.5]), (np.full((2, 3), me + 1.0), None)):
        out = np.zeros((2, 3))
        got = exchange(values, out)
        assert out.ravel()[:got.count].tolist() == (expected or [before + 1.0] * 6) and repr(got) == \
            f"<ucft.Received: {got.count} elements of rank {before}, tag 0>"
    words = np.zeros(4, "f4")  # types are not compared
    assert exchange(np.array([me, 1], "f4"), words.view("u1")).count == 8 and words.tolist() == [before, 1, 0, 0]
    pair = np.array([(0.5, me)], dtype=[("value", "f4"), ("location", "i4")])
    assert exchange(pair.copy(), pair, dtype=ucft.FLOAT_INT32).count == 1 and pair.tolist() == [(0.5, before)]
    total = ucft.Accumulator()
    assert exchange(ucft.Accumulator().add(me + 0.25), total).count == 1 and total.value() == before + 0.25

    for i in range(20):  # those of one tag in their order, and tags in any
        world.send([i, me], after, i % 3)
    out = np.zeros(2, "i8")
    for tag in (2, 0, 1):
        for i in range(tag, 20, 3):
            assert world.recv(out, before, tag).count == 2 and out.tolist() == [i, before]
    for tag in (-2 ** 31, -1, 2 ** 31 - 1):
        exchange(float(tag), out.view("f8"), tag)
        assert out.view("f8")[0] == tag

    world.send([me, 1], 0, 5)
    if me == 0:
        seen = [world.recv(out, tag=5) for _ in range(n)]  # this rank's own, too
        assert sorted(each.source for each in seen) == list(range(n))
        for rank in range(1, n):
            world.send(rank, rank)
            assert world.recv(out).source == rank and out[0] == 10 * rank
    else:
        assert world.recv(out, ucft.ANY_SOURCE).source == 0 and out[0] == me
        world.send(10 * me, 0)

    copy, part = world.dup(), world.split(0, -me)  # messages of one communicator are not for another
    for values, communicator in ((1, copy), (2, world)):
        communicator.send(values, after)
    for expected, communicator in ((2, world), (1, copy)):
        assert communicator.recv(out, before).count == 1 and out[0] == expected
    part.send(me, n - 1 - after)
    assert part.recv(out).source == n - 1 - before and out[0] == before
    plain_messages(world)
    world.context.close()


def plain_messages(world=None):
    """Without NumPy, too."""
    world = world or ucft.init()
    me, n = world.rank, world.size
    after, before = (me + 1) % n, (me - 1) % n
    for values in (bytes([me, 1]), bytearray([me, 1]), memoryview(bytes([me, 1])), array.array("B", [me, 1])):
        for out in (bytearray(3), memoryview(bytearray(3)), array.array("B", [0] * 3)):
            world.send(values, after, 4)
            got = world.recv(out, before, 4)
            assert got.value is out and got.count == 2 and list(out) == [before, 1, 0], (got, out)
    long, out = array.array("d", [me + 0.5] * 5000), array.array("d", [0.0] * 5000)
    sent = world.isend(memoryview(long), after)
    assert world.irecv(out, before).wait().count == 5000 and list(out) == [before + 0.5] * 5000
    sent.wait()
    if np is None:
        raises(ucft.InvalidParamError, ["values", "no buffer"], world.send, [1, 2], after)


def messages_in_flight():
    """Receives before their sends and after them, again and again, tested and awaited."""
    world = ucft.init()
    me, n = world.rank, world.size
    lengths = (1, 2000, 40000)

    def into(i):
        return [world.irecv(np.zeros(lengths[i]), rank, i) for rank in range(n)]

    def out_of(i, step):
        return [world.isend(np.full(lengths[i], 100.0 * me + rank + step), rank, i) for rank in range(n)]

    def expect(receives, i, step):
        for rank, got in enumerate(receives):
            assert (got.source, got.tag, got.count) == (rank, i, lengths[i]), got
            assert (got.value == 100.0 * rank + me + step).all(), got.value

    receives = [into(i) for i in range(3)]
    assert not any(each.test() for some in receives for each in some)
    raises(ucft.StateError, ["posted already"], receives[0][0].post)
    raises(ucft.StateError, ["not completed"], receives[0][0].result)
    raises(ucft.StateError, ["in progress"], world.close)
    world.barrier()  # no rank sends before
    sends = [out_of(i, 0) for i in range(3)]
    while not all(each.test() for some in receives + sends for each in some):
        pass
    for i in range(3):
        expect([each.result() for each in receives[i]], i, 0)
    for each in sends[2] + receives[2]:  # the same again
        each.post()
    expect([each.wait() for each in receives[2]], 2, 0)
    for each in sends[2]:
        each.wait(timeout=60)

    sends = [out_of(i, 1) for i in range(3)]

    async def program():
        return [[await each for each in into(i)] for i in (2, 0, 1)]
    for i, some in zip((2, 0, 1), asyncio.run(program())):
        expect(some, i, 1)

    async def send():
        return [await each for some in sends for each in some]
    assert asyncio.run(send()) == [None] * 3 * n

    own = bytearray(8)
    held = world.irecv(own, me)
    raises(BufferError, [], own.extend, bytes(8))
    world.isend(b"abcdefgh", me)  # dropped: it is sent nonetheless
    assert held.wait().count == 8 and own == b"abcdefgh"
    own = np.ones(40000)
    is_there = weakref.ref(own)
    held = world.isend(own, me)
    del own
    assert is_there() is not None
    world.recv(np.zeros(40000), me)
    held.wait()
    del held
    assert is_there() is None


def messages_beside_collectives():
    """Rank 0 begins more sums than fit in flight. The others begin theirs when rank 0 says so."""
    world = ucft.init()
    me, n = world.rank, world.size
    word = np.zeros(1)
    if me != 0:
        world.recv(word, 0)
    sums = [world.iallreduce(np.full(10, float(i + me))) for i in range(40)]
    if me == 0:
        for rank in range(1, n):
            world.send(1.0, rank)
            world.recv(word, rank)
            assert word[0] == rank
    else:
        world.send(float(me), 0)
    for i, each in enumerate(sums):
        assert (each.wait().value == n * i + n * (n - 1) / 2).all()


def truncated():
    world = ucft.init()
    me, n = world.rank, world.size
    after, before = (me + 1) % n, (me - 1) % n

    def expect(error):
        assert error.rank == before and (error.status, error.code) == ("UCFT_ERR_TRUNCATED", -18)
        assert pickle.loads(pickle.dumps(error)).rank == before

    for count in (3, 40000):
        sent = [world.isend(np.full(count, 1.0), after) for _ in range(3)]
        out = np.full(2, 7.0)
        expect(raises(ucft.TruncatedError, ["16 bytes", f"rank {before} (", f"{8 * count}"], world.recv, out, before))
        request = world.irecv(out)
        expect(raises(ucft.TruncatedError, [f"{8 * count}"], request.wait))
        for function in (request.test, request.result):  # say the same again, after another error
            raises(ucft.InvalidParamError, ["destination"], world.send, 1, n)
            expect(raises(ucft.TruncatedError, [f"{8 * count}"], function))
        expect(raises(ucft.TruncatedError, [], asyncio.run, waiting_for(world.irecv(out))))
        assert out.tolist() == [7, 7]
        for each in sent:
            each.wait()
        world.send([me, 1.0], after)
        assert world.recv(out, before).count == 2 and out.tolist() == [before, 1]


# ---- waiting --------------------------------------------------------------------------------------------------------

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.001)


async def waiting_for(request):
    return await request


def touch(path):
    open(path, "w").close()


def slow():
    """Rank 2 is late for ten steps, then owes nothing any more."""
    world = ucft.init()
    options = ucft.Options(quorum=2)
    if world.rank == 2:
        for _ in range(2):
            world.recv(np.zeros(1))
    total = np.full(2, -1.0)
    late = []
    for step in range(10):
        try:
            got = world.allreduce(np.full(2, 1.0 + world.rank), total, options=options)
        except ucft.LateError:
            assert world.rank == 2 and list(total) == [-1, -1], total
            continue
        assert got.late == (2,) and got.missing == () and got.contributors == 2 and list(total) == [3, 3], got
        assert got.is_late == (world.rank == 2), got
        late.append(step)
    assert 9 in late and (world.rank == 2 or late == list(range(10))), late
    if world.rank < 2:
        world.send(np.zeros(1), 2)
    got = world.iallreduce(np.ones(2), options=ucft.Options(quorum=3, deadline_ns=10)).wait()
    assert got.late == () and not got.is_late and got.contributors == 3 and list(got.value) == [3, 3], got
    raises(ucft.InvalidParamError, ["options.quorum is 4"], world.allreduce, 1, options=ucft.Options(quorum=4))


def requests():
    world = ucft.init()
    me, n = world.rank, world.size
    several = [world.iallreduce(np.array([float(i + me)])) for i in range(5)]
    for i, each in reversed(list(enumerate(several))):
        assert each.wait().value[0] == n * i + n * (n - 1) / 2 and each.test() and each.result().contributors == n
    again = several[0]
    again.post()
    assert again.wait(timeout=60).contributors == n

    for own in bytearray(8), array.array("d", [1.0]):
        held = world.iallreduce(own, own)
        raises(BufferError, [], own.extend if isinstance(own, bytearray) else own.frombytes, bytes(8))
        held.wait()
    own = np.ones(3)
    is_there = weakref.ref(own)
    held = world.iallreduce(own, own)
    del own
    assert is_there() is not None
    held.wait()
    del held
    assert is_there() is None

    async def program():
        return [float((await each).value) for each in [world.iallreduce(float(i)) for i in range(4)]]
    assert asyncio.run(program()) == [0, n, 2 * n, 3 * n]
    world.iallreduce(np.ones(1000))  # dropped: complete nonetheless
    for _ in range(100):
        assert world.allreduce(np.ones(10)).contributors == n


def deferred(folder):
    """Rank 0 begins more than fits in flight, many times, before the others begin."""
    world = ucft.init()
    me, n, many = world.rank, world.size, 40
    rounds = iter(range(100))

    def after_rank_0(begin):
        path = os.path.join(folder, str(next(rounds)))
        if me != 0:
            wait_for(path)
        begun = begin()
        if me == 0:
            touch(path)
        return begun

    def sums(count=many):
        return [world.iallreduce(np.full(10, float(i + me))) for i in range(count)]

    def expect(i, result):
        assert (result.value == n * i + n * (n - 1) / 2).all() and result.contributors == n, (i, result)

    for i, each in reversed(list(enumerate(after_rank_0(sums)))):
        expect(i, each.wait())
    begun = after_rank_0(sums)
    if me == 0 and n > 1:
        raises(ucft.StateError, ["posted already"], begun[-1].post)
        raises(ucft.StateError, ["in progress"], world.close)
    while not all(each.test() for each in begun):
        pass
    for i, each in enumerate(begun):
        expect(i, each.result())

    begun = after_rank_0(sums)  # what blocks comes behind what was begun before
    for recv in (None, np.zeros(10)):
        expect(100, world.allreduce(np.full(10, 100.0 + me), recv))
    copy = world.dup()
    assert world.split(0).allreduce(1).value == copy.allreduce(1).value == n
    for i, each in enumerate(begun):
        expect(i, each.wait())

    begun = after_rank_0(sums)
    del begun[1::2]  # dropped, also while they are deferred
    for i, each in enumerate(begun):
        expect(2 * i, each.wait())

    async def program():
        return [await each for each in after_rank_0(sums)]
    for i, result in enumerate(asyncio.run(program())):
        expect(i, result)
    gossips = after_rank_0(lambda: [world.igossip(np.array([float(i)])) for i in range(10)])
    for i, each in reversed(list(enumerate(gossips))):
        assert abs(each.wait().value[0] - i) < 1e-6
    at_the_end = after_rank_0(sums)  # complete nonetheless
    if me == n - 1:
        for i, each in enumerate(at_the_end):
            expect(i, each.wait())
        print("complete", flush=True)
    else:
        globals()["held_to_the_end"] = at_the_end


def limits(folder):
    """Rank 0 waits in vain, is interrupted, and lets another thread run meanwhile; the others come when that has
    happened."""
    world = ucft.init()
    steps = [os.path.join(folder, name) for name in ("late", "thread", "interrupted")]
    if world.rank == 0:
        late = world.ibarrier()
        error = raises(ucft.TimedOutError, ["0.01 s; it goes on: it waits for", "rank 1 (", "rank 2 ("], late.wait,
                       timeout=0.01)
        assert isinstance(error, TimeoutError) and not late.test()
        touch(steps[0])
        late.wait()
        threading.Timer(0.05, touch, [steps[1]]).start()  # runs while barrier() waits, or this never ends
        world.barrier()
        posted = world.look()[0].posted
        interrupts = when(lambda: world.look()[0].posted > posted, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            world.allreduce(np.ones(1000))
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            interrupts.join()
            touch(steps[2])
    else:
        for step in steps:
            wait_for(step)
            world.allreduce(np.ones(1000)) if step is steps[2] else world.barrier()
    for _ in range(10):
        assert world.allreduce(1).value == world.size


def when(is_so, do):
    """A thread that does something when something is so."""
    def watch():
        while not is_so():
            time.sleep(0.001)
        do()
    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def when_it_waits_for_a_message(world, do):
    return when(lambda: "in a recv" in world.look()[world.rank].text, do)


def limits_of_messages(folder):
    """Rank 0 waits in vain, lets another thread run meanwhile, and is interrupted. Rank 1 does something when it is
    told to."""
    world = ucft.init()
    path = os.path.join(folder, "thread")
    out, long = np.zeros(1), np.zeros(40000)
    if world.rank == 0:
        late = world.irecv(out, 1, 1)
        error = raises(ucft.TimedOutError, ["0.01 s; it goes on: a receive from rank 1 (", "of tag 1", "; rank 1: "],
                       late.wait, timeout=0.01)
        assert isinstance(error, TimeoutError) and not late.test()
        sent = world.isend(long, 1, 2)
        raises(ucft.TimedOutError, ["0.02 s; it goes on: a send to rank 1 (", "of tag 2", "rank 1: "],
               sent.wait, timeout=0.02)
        anyone = world.irecv(out, tag=3)
        raises(ucft.TimedOutError, ["it goes on: a receive from any rank of tag 3"], anyone.wait, timeout=0.01)
        world.send(0.0, 1)
        assert late.wait().source == 1 and sent.wait() is None and anyone.wait().source == 1

        touches = when_it_waits_for_a_message(world, lambda: touch(path))  # it runs, or this never ends
        assert world.recv(out, 1, 4).source == 1
        touches.join()
        interrupts = when_it_waits_for_a_message(world, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            world.recv(out, 1, 5)
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            interrupts.join()
        dropped = world.irecv(out, 1, 5)
        del dropped

        async def cancelled():
            task = asyncio.ensure_future(waiting_for(world.irecv(out, 1, 5)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        asyncio.run(cancelled())
        out[0] = 7
        world.send(0.0, 1)
        for expected in (1, 2):  # none of these gets the message
            again = np.zeros(1)
            assert world.recv(again, 1, 5).count == 1 and (out[0], again[0]) == (7, expected)
    else:
        world.recv(out, 0)
        world.send(1.0, 0, 1)
        world.recv(long, 0, 2)
        world.send(1.0, 0, 3)
        wait_for(path)
        world.send(1.0, 0, 4)
        world.recv(out, 0)
        for value in (1.0, 2.0):
            world.send(value, 0, 5)
    assert world.allreduce(1).value == world.size


def operators():
    world = ucft.init()
    me, n = world.rank, world.size

    def larger(a, b):
        np.maximum(a, b, out=b)
    for count in (1, 100000):
        assert (world.allreduce(np.full(count, me, dtype="f4"), op=larger).value == n - 1).all()

    class Broken(Exception):
        pass

    def broken(a, b):
        raise Broken("on purpose")
    if n > 1:
        raises(Broken, ["on purpose"], world.allreduce, np.ones(3), op=broken)
        raises(TypeError, ["op", "second argument"], world.allreduce, np.ones(3), op=np.maximum)
    assert world.allreduce(1).value == n


# ---- deaths ---------------------------------------------------------------------------------------------------------

def deaths():
    told = []
    context = ucft.Context(on_failure=told.append)
    world = context.world
    me, n, victim = world.rank, world.size, 1
    for iteration in range(600):
        if me == victim and iteration == 300:
            die()
        mine = np.array([me + 1.0, iteration])
        result = world.allreduce(mine, op=ucft.AVG if iteration % 2 else ucft.SUM)
        ranks = [r for r in range(n) if r not in result.missing]
        expected = np.array([sum(r + 1.0 for r in ranks), len(ranks) * iteration])
        assert (result.value == (expected / len(ranks) if iteration % 2 else expected)).all(), (iteration, result)
        assert result.contributors == len(ranks)
    assert result.missing == (victim,) and world.failed == (victim,)
    assert [each.rank for each in told] == [victim] and told[0].kind == ucft.FailureKind.PROVED and told[0].pid > 0
    error = raises(ucft.RootFailedError, [], world.broadcast, np.zeros(3), root=victim)
    assert error.status == "UCFT_ERR_ROOT_FAILED"
    gathered = world.allgather(np.array([me]), np.full((n, 1), -1))
    assert gathered.value[:, 0].tolist() == [-1 if r == victim else r
                                             for r in range(n)] and gathered.missing == (victim,)
    fresh = world.allgather(np.full(1000, me + 1)).value  # a new array: the same on all, zeros where the dead would be
    assert (fresh == np.array([0 if r == victim else r + 1 for r in range(n)])[:, None]).all()
    context.close()
    print("survived", flush=True)


def dead_peer():
    """Rank 0 kills rank 1 while it waits for that one's message. Ranks 2 and 3 wait for a message of any rank."""
    context = ucft.Context()
    world = context.world
    me, n, victim = world.rank, world.size, 1
    part = world.split(0, -me)  # where it has another number
    in_part = n - 1 - victim
    out, long = np.zeros(2000), np.zeros(40000)

    def failed(function, *arguments, number=victim):
        error = raises(ucft.PeerFailedError, [f"rank {victim} ("], function, *arguments)
        assert error.rank == number and (error.status, error.code) == ("UCFT_ERR_PEER_FAILED", -17), error
        assert pickle.loads(pickle.dumps(error)).rank == number

    if me == victim:
        for i in range(3):
            world.send(np.full(2000, i + 0.5), 0, 1)
        part.send(7.0, n - 1)
        world.send(float(os.getpid()), 0, 2)
        world.recv(out, 0, 3)  # it is killed in here
    elif me == 0:
        requests = [world.irecv(long, victim, 4), world.isend(long, victim, 4), world.irecv(out, victim, 5),
                    world.isend(long, victim, 5)]
        world.recv(out, victim, 2)
        process = int(out[0])
        assert part.recv(out).source == in_part
        kills = when_it_waits_for_a_message(world, lambda: os.kill(process, signal.SIGKILL))
        failed(world.recv, out, victim, 6)
        kills.join()
        for i in range(3):  # what it had sent
            assert world.recv(out, victim, 1).source == victim and (out == i + 0.5).all()
        for _ in range(2):
            failed(world.recv, out, victim, 1)
            failed(world.send, 1.0, victim)
            failed(world.send, long, victim)
            failed(part.recv, out, in_part, number=in_part)
            failed(part.send, 1.0, in_part, number=in_part)
        for request in requests[:2]:
            failed(request.wait)
        for request in requests[2:]:
            failed(lambda: asyncio.run(waiting_for(request)))
        for request in requests:
            failed(request.test)
            failed(request.result)
            request.post()
            failed(request.wait)
        for rank in (2, 3):
            world.recv(out, rank)
            world.send(float(rank), rank)
    else:
        if me == 2:
            failed(world.recv, out)
        else:
            failed(lambda: asyncio.run(waiting_for(world.irecv(out))))
        world.send(1.0, 0)
        assert world.recv(out).source == 0 and out[0] == me  # once for each death
        failed(world.recv, out, victim)
    assert world.allreduce(1).missing == (victim,) == world.failed
    context.close()
    print("survived", flush=True)


def peer_that_leaves(how):
    """Rank 0 ends when it has sent, while the others wait for more: that is no failure, but no message comes."""
    world = ucft.init()
    me, n = world.rank, world.size
    out = np.zeros(40000)
    if me == 0:
        for rank in range(1, n):
            world.send(float(rank), rank)
        requests = [world.isend(np.full(40000, float(rank)), rank) for rank in range(1, n)]
        if how == "dropped":
            del requests
        elif how == "sent":
            for each in requests:
                each.wait()
        else:
            globals()["held_to_the_end"] = requests
        return
    for count in (1, 40000):
        assert world.recv(out, 0).count == count and (out[:count] == me).all()
    for function, *arguments in ((world.recv, out, 0), (world.send, 1.0, 0), (world.send, out, 0)):
        error = raises(ucft.PeerFailedError, ["rank 0 (", "left"], function, *arguments)
        assert error.rank == 0
    assert world.failed == ()
    for rank in range(1, n):
        world.isend(float(me), rank, 1)
    assert sorted(world.recv(out, tag=1).source for _ in range(1, n)) == list(range(1, n))


def late():
    """A thread of rank 0 sees who is late, while the rank waits."""
    world = ucft.init()
    world.allreduce(1)
    if world.rank == 0:
        while world.look()[1].heard_at_ns <= world.look()[1].posted_at_ns:
            time.sleep(0.001)  # until a sign of life after the allreduce
        world.send(np.zeros(1), 1)

        def watch():
            while True:
                seen = world.look()
                if seen[1].state == ucft.RankState.STOPPED and seen[0].state == ucft.RankState.IN_OPERATION:
                    break
            assert seen[0].waits_for == (1,) and seen[0].posted == seen[1].posted + 1, seen
            assert seen[0].last == ucft.Collective.BARRIER and seen[1].last == ucft.Collective.ALLREDUCE, seen
            assert seen[1].finished == seen[1].posted and 0 < seen[1].posted_at_ns < seen[1].heard_at_ns, seen
            assert "the last: allreduce (sum of int64, 8 bytes)" in seen[1].text, seen
            os.kill(seen[1].pid, signal.SIGCONT)
            print("seen", flush=True)
        watchdog = threading.Thread(target=watch)
        watchdog.start()
        world.barrier()
        watchdog.join()
    else:
        world.recv(np.zeros(1))
        os.kill(os.getpid(), signal.SIGSTOP)
        world.barrier()


def exception():
    """A rank that ends by an exception has failed; the others go on."""
    world = ucft.init()
    if world.rank == 1:
        raise RuntimeError("this rank has enough")
    while world.allreduce(1).missing != (1,):
        pass
    print("survived", flush=True)


def orderly():
    """Rank 0 ends with an operation that nobody has waited for, rank 1 by sys.exit inside `with`: neither has failed."""
    told = []
    context = ucft.Context(on_failure=told.append)
    if context.rank == 0:
        context.world.ibarrier()
        sys.exit(0)
    if context.rank == 1:
        with context:
            context.world.barrier()
            sys.exit(0)
    time.sleep(0.1)
    context.world.barrier()
    context.close()
    assert told == [], told
    print("survived", flush=True)


def leave_early(how):
    """Rank 0 ends its program in order before the others, which go on without it: no operation is lost."""
    world = ucft.init()
    for step in range(8):
        if world.rank == 0 and step == 3:
            sys.exit(0) if how == "exit" else world.close()
            return
        absent = () if step < 3 else (0,)
        for result in (world.allreduce(np.ones(3)), world.allgather(np.full(1, world.rank)), world.barrier()):
            assert result.missing == absent and result.contributors == world.size - len(absent), result
        assert world.failed == (), world.failed


def ends_or_a_second_passes(process):
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    return
        except FileNotFoundError:
            return
        time.sleep(0.001)


def held(what, folder):
    """Rank 0 ends with a request that it holds, or has dropped. The others come when it has ended, or hasn't for a
    while."""
    global request
    world = ucft.init()
    process = int(world.allgather(np.array([os.getpid()])).value[0, 0])
    path = os.path.join(folder, what)
    if world.rank == 0:
        request = world.iallreduce(np.full(100000, 1.0))
        if what == "dropped":
            del request
        touch(path)
        return
    wait_for(path)
    ends_or_a_second_passes(process)
    result = world.allreduce(np.full(100000, world.rank + 1.0))
    n = world.size
    assert result.missing == () and (result.value == n * (n + 1) / 2).all(), result


def block(folder):
    """Ranks leave `with` with requests in progress: once the others come, and once before they do."""
    path, told = os.path.join(folder, "left"), os.path.join(folder, "told")
    with ucft.Context() as context:
        world = context.world
        if world.rank == 0:
            touch(path)
        else:
            wait_for(path)
        request = world.iallreduce(np.full(100000, world.rank + 1.0))
    assert not context.is_open
    context = ucft.Context()
    if context.rank == 0:
        request = context.world.iallreduce(np.ones(10))
        raises(ucft.StateError, ["10 s", "waits for", "rank 1"], context.close)
        touch(told)
    else:
        wait_for(told)
        request = context.world.iallreduce(np.ones(10))
    context.close()
    print("left", flush=True)


# ---- newcomers ------------------------------------------------------------------------------------------------------

LONG = 100  # seconds: for that which comes, or the test hangs


def threads_named(name):
    count = 0
    for each in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{each}/comm") as file:
                count += file.read().strip() == name
        except OSError:  # it has just ended
            pass
    return count


def renewed(victim):
    """The communicator in which a newcomer has the victim's seat: of survivors, and of the newcomer."""
    world = ucft.init()
    if not world.newcomers:
        if world.rank == victim:
            die()
        world = world.renew(newcomers=1, timeout=LONG)
    assert world.newcomers == (victim,), world.newcomers
    return world


def renewal(victim):
    """The victim dies, and a newcomer has its seat."""
    victim, told = int(victim), []
    context = ucft.Context(join_timeout=LONG, on_failure=told.append)
    world = context.world
    if not world.newcomers:
        assert context.waiting() == (0, 0) and ":" in context.address, (context.waiting(), context.address)
        assert world.share_state("as it is") == "as it is"
        if world.rank == victim:
            die()
        old = world
        world = old.renew(newcomers=1, timeout=LONG)
        assert context.world is world and old.rank == world.rank
        result = old.allreduce(1)
        assert result.missing == (victim,) and result.value == world.size - 1, result
        raises(ucft.StateError, ["renewed before"], old.renew)
        assert [each.rank for each in told] == [victim], told
        del old, result
        while threads_named("ucft-detector") > 1:  # dropped, it is left; or this never ends
            time.sleep(0.001)
    assert world.newcomers == (victim,) and context.waiting()[0] == 0
    assert (world.rank == victim) == ("UCFT_JOIN" in os.environ)
    assert (context.rank, context.size) == (world.rank, world.size)
    for _ in range(20):
        result = world.allreduce(1)
        assert result.missing == () and result.value == world.size, result
    for _ in range(100):
        world = world.renew()
    assert world.newcomers == () and world.allreduce(1).value == world.size
    assert context.world is world and len(told) == (world.rank != victim), told
    context.close()
    print("survived", flush=True)


def renewal_interrupted(folder):
    """Rank 0 waits for the others' renewal, and is interrupted. The renewal goes on: the next call returns it."""
    world = ucft.init()
    path = os.path.join(folder, "interrupted")
    if world.rank == 0:
        threading.Timer(0.05, touch, [os.path.join(folder, "thread")]).start()  # runs meanwhile, or this never ends
        posted = world.look()[0].posted
        interrupts = when(lambda: world.look()[0].posted > posted and os.path.exists(os.path.join(folder, "thread")),
                          lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            world.renew()
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            interrupts.join()
        raises(ucft.ThreadError, ["another thread"], world.allreduce, 1)
        touch(path)
    else:
        wait_for(path)
    world = world.renew()
    assert world.newcomers == () and world.allreduce(1).value == world.size
    assert world.renew().allreduce(1).value == world.size


def not_joinable():
    context = ucft.Context()
    world = context.world
    for text, function in (("UCFT_JOINABLE=y", world.renew), ("UCFT_JOINABLE=y", lambda: context.address)):
        error = raises(ucft.StateError, [text], function)
        assert error.status == "UCFT_ERR_STATE"
    raises(ucft.InvalidParamError, ["timeout"], world.renew, timeout=-1)
    assert context.waiting() == (0, 0) and world.newcomers == ()
    assert context.join().allreduce(1).value == world.size
    assert world.share_state(None) is None
    context.close()


def joinable(folder):
    """Rank 1 dies. The others renew when they are told to: newcomers come by hand."""
    context = ucft.Context()
    world = context.world
    if world.rank == 1:
        die()
    if world.rank == 0:
        with open(os.path.join(folder, "new"), "w") as file:
            file.write(context.address)
        os.rename(os.path.join(folder, "new"), os.path.join(folder, "address"))
    raises(ucft.InvalidParamError, ["newcomers is -2"], world.renew, -2)
    wait_for(os.path.join(folder, "renew"))
    world = world.renew(newcomers=1, timeout=LONG)
    assert world.newcomers == (1,)
    assert world.allreduce(1).value == 3


def late_newcomer(folder):
    """It waits in vain, and is interrupted. Then it is admitted."""
    error = raises(ucft.TimedOutError, ["not within 0.05 s", "has not been admitted"], ucft.init, join_timeout=0.05)
    assert isinstance(error, TimeoutError)
    context = ucft.Context(join_timeout=0.05)
    assert repr(context) == "<ucft.Context: in no job yet>", repr(context)
    raises(ucft.TimedOutError, ["not within 0.05 s"], lambda: context.world)
    raises(ucft.StateError, ["is a newcomer"], context.communicator)
    raises(ucft.InvalidParamError, ["join_timeout"], context.join, -1)
    assert context.waiting() == (0, 0)
    waits = threading.Event()
    interrupts = when(waits.is_set, lambda: (time.sleep(0.05), os.kill(os.getpid(), signal.SIGINT)))
    try:
        waits.set()
        context.join(LONG)
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        interrupts.join()
    touch(os.path.join(folder, "renew"))
    world = context.join(LONG)
    assert world.rank == 1 and world.newcomers == (1,) and world.allreduce(1).value == 3
    context.close()
    print("admitted", flush=True)


def newcomer_refused(kind, *words):
    """A newcomer that nobody takes."""
    error = raises(getattr(ucft, kind), words, ucft.init)
    print(f"{kind}: {error}", flush=True)


# ---- states ---------------------------------------------------------------------------------------------------------

PIECE = 64 << 20  # ucft/state.hpp


def some_bytes(count, seed=1):
    return np.resize(np.random.default_rng(seed).integers(0, 256, 10 ** 6 + 3, np.uint8), count)


def mixed_in(lane, word):
    product = (lane ^ word) * 0xff51afd7ed558ccd % 2 ** 64
    return product ^ product >> 32


def checksum(data):
    """checksum_of() of ucft/state.hpp."""
    words = np.frombuffer(bytes(data) + bytes(-len(data) % 8), np.uint64)
    whole = len(data) // 64 * 8
    lanes = np.zeros(8, np.uint64)
    odd, half = np.uint64(0xff51afd7ed558ccd), np.uint64(32)
    for row in words[:whole].reshape(-1, 8):
        lanes = (lanes ^ row) * odd
        lanes = lanes ^ lanes >> half
    last = [int(lane) for lane in lanes]
    for lane, word in enumerate(words[whole:]):
        last[lane] = mixed_in(last[lane], int(word))
    told = len(data)
    for lane in last:
        told = mixed_in(told, lane)
    return told


def half_a_donor(world, state, step, done=0):
    """What share_state sends, by hand, up to a step; so many pieces have been sent before. Then it dies."""
    told = 0
    for before in range(done):
        sent = checksum(state[before * PIECE:(before + 1) * PIECE])
        told = ((told ^ sent) * 0xc4ceb9fe1a85ec53 + 1) % 2 ** 64
    piece = state[done * PIECE:(done + 1) * PIECE].copy()
    its_checksum = np.array([checksum(piece)], np.uint64)
    if step != "nothing":
        world.broadcast(np.array([state.nbytes, 0, told], np.uint64), world.rank)
    if step == "piece":
        world.broadcast(piece, world.rank)
        world.broadcast(its_checksum, world.rank)
    if step == "in_a_piece":
        world.ibroadcast(piece, world.rank)
    die()


def pieces_of_donor(world, donor):
    """How many of 64 MiB it sends before it dies."""
    try:
        world.broadcast(np.zeros(3, np.uint64), donor)
        for count in range(2):
            world.broadcast(np.zeros(PIECE, np.uint8), donor)
            world.broadcast(np.zeros(1, np.uint64), donor)
        raise AssertionError(f"rank {donor} lives")
    except ucft.RootFailedError:
        return locals().get("count", 0)


def states():
    """All sizes and types, then versions and checksums."""
    world = renewed(1)
    is_new = world.rank == 1
    for state in (b"", b"x", bytearray(b"abc"), memoryview(b"abcdefgh" * 9), np.arange(12.0).reshape(3, 4),
                  np.zeros((0, 3)), np.array([1j, 2]), some_bytes(10 ** 6 + 3), some_bytes(200 * 10 ** 6)):
        got = world.share_state(None if is_new else state)
        assert (bytes(got) == bytes(state) and type(got) is bytes) if is_new else got is state
    if not is_new:
        raises(ucft.InvalidParamError, ["None", f"rank {world.rank} is no newcomer"], world.share_state, None)
        raises(ucft.InvalidParamError, ["state: "], world.share_state, [1, 2])
        raises(ucft.InvalidParamError, ["state: ", "C-contiguous"], world.share_state, np.zeros((3, 4)).T)
    if is_new:
        raises(ucft.MismatchError, ["rank 0", "version 2", "version 0"], world.share_state, None)
    else:
        world.share_state(b"abc", version=2)
    assert world.share_state(None if is_new else b"later", version=2 ** 64 - 1) == b"later"
    text = b"nineteen characters"
    for error in (1, 0):
        if world.rank == 0:
            world.broadcast(np.array([len(text), 0, 0], np.uint64), 0)
            world.broadcast(np.frombuffer(text, np.uint8).copy(), 0)
            world.broadcast(np.array([checksum(text) ^ error], np.uint64), 0)
        elif is_new and error:
            raises(ucft.TransportError, ["rank 0", "checksum"], world.share_state, None)
        else:
            assert world.share_state(None if is_new else text) == text
    assert world.allreduce(1).value == world.size
    print("survived", flush=True)


def donors(step, others):
    """Ranks 0 and 1 die as donors. Rank 2 goes on from the piece that is missing; or, if its state is another, anew."""
    try:
        world = renewed(3)
    except ucft.StartUpError:  # in the seat of a donor, when the others have ended
        return
    state = some_bytes(200 * 10 ** 6)
    last = state if others == "same" else some_bytes(PIECE + 5, 2)
    if world.rank == 0:
        half_a_donor(world, state, step)
    if world.rank == 1:
        half_a_donor(world, state, step, pieces_of_donor(world, 0))
    before = world.look()[world.rank].posted
    got = world.share_state(None if world.rank == 3 else last)
    broadcasts = world.look()[world.rank].posted - before
    assert bytes(got) == last.tobytes()
    expected = {("nothing", "same"): 9, ("header", "same"): 11, ("piece", "same"): 11, ("piece", "other"): 13}
    assert expected.get((step, others), broadcasts) == broadcasts, broadcasts
    assert 0 in world.allreduce(1).missing
    print("survived", flush=True)


def no_donor():
    try:
        world = renewed(1)
    except ucft.StartUpError:
        return
    if world.rank == 0:
        die()
    raises(ucft.RootFailedError, ["no rank that has the state lives"], world.share_state, None)
    print("survived", flush=True)


def mixed(program, role):
    """One rank is a program in C++: the donor, or the newcomer."""
    is_new = "UCFT_JOIN" in os.environ
    if role == ("newcomer" if is_new else "donor") and (is_new or os.environ["UCFT_RANK"] == "0"):
        os.execv(program, [program])
    world = renewed(1)
    state = bytes(i % 251 for i in range(1000))
    assert world.share_state(None if is_new else state, version=3) == state
    assert world.allreduce(1).value == world.size
    print("survived", flush=True)


def own_allgather():
    from mpi4py import MPI
    everybody = MPI.COMM_WORLD
    context = ucft.Context(allgather=everybody.allgather, rank=everybody.rank, size=everybody.size)
    assert (context.rank, context.size) == (everybody.rank, everybody.size)
    assert context.world.allreduce(np.ones(5)).value.tolist() == [everybody.size] * 5
    context.close()
    raises(ucft.InvalidParamError, ["allgather", "rank and size"], ucft.Context, allgather=everybody.allgather)
    raises(ucft.InvalidParamError, ["4 blocks", "2 ranks"], ucft.Context, allgather=lambda block: [block] * 4, rank=0,
           size=2)
    raises(ucft.InvalidParamError, ["rank 4 of 2"], ucft.Context, allgather=everybody.allgather, rank=4, size=2)
    raises(ZeroDivisionError, [], ucft.Context, allgather=lambda block: 1 / 0, rank=0, size=2)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
