"""Exports as `dlhook export --format parquet` writes them, of a simulated data-parallel training: what dlhook.ranks reads of each rank.

Job(...) has the times of all ranks as arrays (steps x ranks) that a test changes before write(): a fault, a clock, a second job.
A step: input, the layers forward and backward, an all reduce for each bucket after its layer's backward pass, the update.
"""

import os

import numpy
import pyarrow
import pyarrow.parquet

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS = 4
FOUND_AT = 1_795_000_000_000_000_000
MS = 1_000_000

# As in analyzer/export/raw_tables.cc; test_rank_exports.py compares them with a real export. Texts have ":t".
SCHEMA = {
    "raw_processes": "process_id pid parent_pid host:t program:t script:t rank ranks:t file:t start_ns end_ns world_size local_rank "
                     "boot_id:t dlhook_version:t start_unix_ns time_zero_unix_ns job:t restart",
    "raw_steps": "step_id process_id thread_id number kind:t start_ns end_ns batch warm_up steady left_out:t no_processor_ns "
                 "exposed_communication_ns",
    "raw_phases": "step_id phase:t start_ns end_ns",
    "raw_collectives": "process_id step communicator:t communicator_number members sequence kind:t bytes library:t start_ns end_ns",
    "raw_work": "process_id first_step steps kind:t layer:t direction:t op:t implementation:t on_gpu count sum_ns min_ns max_ns",
    "capabilities": "kind:t object:t name:t state:t records processes note:t path:t build_id:t",
    "tables": "name:t kind:t title:t schema_version",
}


def schema_of(name):
    words = [word.partition(":") for word in SCHEMA[name].split()]
    return pyarrow.schema([(column, pyarrow.string() if kind else pyarrow.int64()) for column, _, kind in words])


class Job:
    def __init__(self, ranks=8, hosts=2, steps=400, seed=0, library="NCCL", noise=0.01, groups=False, layers=LAYERS, buckets=2):
        rng = numpy.random.default_rng(seed)
        self.ranks, self.steps, self.library, self.groups, self.layers, self.buckets = ranks, steps, library, groups, layers, buckets
        self.host = numpy.arange(ranks) * hosts // ranks
        self.local = numpy.arange(ranks) - numpy.searchsorted(self.host, self.host)
        self.world, self.job, self.restart, self.first_step = ranks, "slurm-17", None, 0
        self.version, self.schema_version = numpy.full(ranks, "0.1.0", object), numpy.full(ranks, 1)
        self.clock = numpy.zeros(ranks, numpy.int64)  # ahead
        self.begin = FOUND_AT
        each = rng.normal(1, 0.004, ranks)  # no two processors are equal
        shape = (steps, ranks)
        self.input = 1 * MS * rng.gamma(20, 1 / 20, shape)
        self.between = numpy.zeros(shape)  # input and the forward pass
        self.work = 20 * MS * each * rng.normal(1, noise, shape)  # of all layers
        self.work *= numpy.where(rng.random(shape) < 0.005, 1.5, 1)  # a disturbance now and then
        self.no_processor = rng.exponential(0.05 * MS, shape)
        self.transfer = 2 * MS * rng.normal(1, 0.03, (steps, buckets, 1 + (ranks if groups else 0)))  # of all; of each
        self.part = numpy.full((ranks, layers), 1 / layers)  # of the work
        self.implementation = numpy.full((ranks, layers), "jit:avx512_core", object)
        self.library_build = numpy.full(ranks, "5d2c", object)
        self.batch = numpy.full(ranks, 32)
        self.last_step = numpy.full(ranks, steps)  # of a rank that dies
        self.rng = rng

    def run(self):
        steps, ranks, buckets = self.steps, self.ranks, self.buckets
        self.start = numpy.empty((steps, ranks))
        self.end = numpy.empty((steps, ranks))
        self.came = numpy.empty((steps, buckets, ranks))
        self.left = numpy.empty((steps, buckets, ranks))
        self.exposed = numpy.zeros((steps, ranks))
        now = numpy.full(ranks, 5000.0 * MS) + self.rng.random(ranks) * 100 * MS
        busy = now.copy()
        for step in range(steps):
            self.start[step] = now
            computed = now + self.input[step] + self.between[step] + (self.work[step] + self.no_processor[step]) / 2
            for bucket in range(buckets):
                computed = computed + (self.work[step] + self.no_processor[step]) / 2 / buckets
                self.came[step, bucket] = numpy.maximum(computed, busy)
                if self.groups:  # a communicator for each place on a host
                    last = numpy.array([self.came[step, bucket, self.local == local].max() for local in self.local])
                    done = last + self.transfer[step, bucket, 1 + self.local]
                else:
                    done = self.came[step, bucket].max() + numpy.full(ranks, self.transfer[step, bucket, 0])
                busy = done + self.rng.exponential(5000, ranks)
                self.left[step, bucket] = busy
            self.exposed[step] = numpy.maximum(busy - computed, 0)
            self.end[step] = numpy.maximum(busy, computed) + 1 * MS
            now = self.end[step]
        return self

    def write(self, folder, ranks=None):
        """One export for each rank."""
        for rank in range(self.ranks) if ranks is None else ranks:
            self._write_rank(os.path.join(folder, f"rank{rank}" + (f".{self.restart}" if self.restart else "")), rank)
        return folder

    def _write_rank(self, folder, r):
        n = int(self.last_step[r])
        number = numpy.arange(n)
        end = (self.end[-1] if n == self.steps else self.end[n - 1]).max() + 100 * MS
        zero = self.begin + int(self.clock[r]) + r * 1000
        self._put(folder, "raw_processes", {
            "process_id": [0], "pid": [4000 + r], "parent_pid": [1], "host": [f"node{self.host[r]}"], "program": ["python"],
            "script": ["train.py"], "rank": [r], "ranks": [f"RANK={r}"], "start_ns": [0], "end_ns": [int(end)], "world_size": [self.world],
            "local_rank": [self.local[r]], "boot_id": [f"boot{self.host[r]}"], "dlhook_version": [self.version[r]],
            "start_unix_ns": [zero], "time_zero_unix_ns": [zero],
            "job": [self.job], "restart": [self.restart]})
        start, stop = (self.start[:n, r] - r * 1000).astype(int), (self.end[:n, r] - r * 1000).astype(int)
        self._put(folder, "raw_steps", {
            "step_id": number, "process_id": numpy.zeros(n, int), "number": number, "kind": ["training"] * n, "start_ns": start,
            "end_ns": stop, "batch": numpy.full(n, self.batch[r]), "warm_up": number < 2, "steady": number >= 2,
            "left_out": ["warm-up"] * min(n, 2) + [None] * max(n - 2, 0),
            "no_processor_ns": self.no_processor[:n, r],
            "exposed_communication_ns": self.exposed[:n, r] if self.library == "NCCL" else None})
        read = start + self.input[:n, r].astype(int)
        begin = read + self.between[:n, r].astype(int)
        forward = begin + (self.work[:n, r] / 2).astype(int)
        update = stop - MS
        self._put(folder, "raw_phases", {
            "step_id": numpy.repeat(number, 4), "phase": ["input", "forward", "backward", "update"] * n,
            "start_ns": numpy.stack([start, begin, forward, update], 1).ravel(),
            "end_ns": numpy.stack([read, forward, update, stop], 1).ravel()})
        m = n * self.buckets
        is_gloo = self.library == "gloo"
        is_told = not is_gloo and not self.groups
        members = None if is_gloo else numpy.full(m, len(set(self.host)) if self.groups else self.world)
        self._put(folder, "raw_collectives", {
            "process_id": numpy.zeros(m, int), "step": numpy.repeat(number, self.buckets),
            "communicator": [f"{self.library}, all {self.world} ranks, 1"] * m if is_told else None, "members": members,
            "communicator_number": None if is_gloo else numpy.ones(m, int), "sequence": numpy.arange(m), "kind": ["all reduce"] * m,
            "bytes": None if is_gloo else numpy.tile([32 << 20, 16 << 20] * (self.buckets // 2), n), "library": [self.library] * m,
            "start_ns": (self.came[:n, :, r] - r * 1000).ravel(), "end_ns": (self.left[:n, :, r] - r * 1000).ravel()})
        # The same in all directions of a layer: forward a half, backward a half.
        first = number // 50 * 50
        windows, sizes = numpy.unique(first[2:], return_counts=True)
        sums = numpy.array([(self.work[:n, r] + self.no_processor[:n, r])[2:][first[2:] == window].sum() for window in windows])
        rows = [(window, size, f"layers.{layer}", direction, self.implementation[r, layer], total * self.part[r, layer] / 2)
                for window, size, total in zip(windows, sizes, sums) for layer in range(self.layers)
                for direction in ("forward", "backward-data")]
        window, size, layer, direction, implementation, total = zip(*rows)
        total = numpy.array(total) * self.rng.normal(1, 0.003, len(rows))
        k = len(rows)
        self._put(folder, "raw_work", {
            "process_id": numpy.zeros(k, int), "first_step": window, "steps": size, "kind": ["training"] * k, "layer": layer,
            "direction": direction, "op": ["convolution"] * k, "implementation": implementation, "on_gpu": numpy.zeros(k, int),
            "count": size, "sum_ns": total, "min_ns": total / size * 0.9, "max_ns": total / size * 1.2})
        self._put(folder, "capabilities", {
            "kind": ["library", "tap"], "object": ["libdnnl.so.3"] * 2,
            "name": ["onednn", "onednn-tap"], "state": ["hooked", "on"],
            "records": [None, 100 + r], "processes": [1, 1], "build_id": [self.library_build[r], None]})
        raw = [name for name in SCHEMA if name.startswith("raw_")]
        self._put(folder, "tables", {"name": raw, "kind": ["raw"] * len(raw), "title": raw,
                                     "schema_version": [int(self.schema_version[r])] * len(raw)})

    @staticmethod
    def _put(folder, name, cells):
        schema = schema_of(name)
        rows = max(len(values) for values in cells.values() if values is not None)
        arrays = []
        for field in schema:
            values = cells.get(field.name)
            if values is not None and field.type == pyarrow.int64() and None not in list(values[:1]):
                values = numpy.asarray(values).astype(numpy.int64)
            arrays.append(pyarrow.nulls(rows, field.type) if values is None else pyarrow.array(values, field.type))
        parts = ("process=0", "part-0.parquet") if name in ("raw_collectives", "raw_work") else ()
        path = os.path.join(folder, name, *parts) if parts else os.path.join(folder, f"{name}.parquet")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        times = [field.name for field in schema if field.name.endswith("_ns")]
        pyarrow.parquet.write_table(pyarrow.table(arrays, schema=schema), path, compression="zstd",
                                    column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
                                    use_dictionary=[field.name for field in schema if field.name not in times])
