"""A small client of CUPTI in ctypes, for tests of the fake one: subscribes, keeps callbacks and records.

    cupti = Cupti(folder, "13", kinds=(KERNEL, MEMCPY))
    ... cupti.flush(); cupti.records          [Record], in the order received
    cupti.subscribe((RUNTIME, 211), RESOURCE)  callbacks of one function; of a domain: cupti.callbacks
"""

import ctypes
import os
import struct
import types

MEMCPY, MEMSET, DRIVER_API, RUNTIME_API, DEVICE, KERNEL, OVERHEAD = 1, 2, 4, 5, 8, 10, 17
MEMCPY2, SYNCHRONIZATION, EXTERNAL, GRAPH = 22, 38, 39, 51
DRIVER, RUNTIME, RESOURCE = 1, 2, 3  # domains of callbacks

# The offsets that have been the same since CUDA 9: {kind: {field: (offset, format)}}
WORK = {"start": (16, "Q"), "end": (24, "Q")}
FIELDS = {
    KERNEL: {**WORK, "device": (40, "I"), "stream": (48, "I"), "grid": (52, "3i"), "block": (64, "3i"),
             "correlation": (92, "I"), "name": (104, "Q"), "queued": (120, "Q"), "submitted": (128, "Q"),
             "node": (144, "Q"), "graph": (156, "I")},
    MEMCPY: {**WORK, "copy": (4, "4B"), "bytes": (8, "Q"), "device": (32, "I"), "stream": (40, "I"),
             "correlation": (44, "I"), "node": (64, "Q"), "graph": (72, "I")},
    MEMCPY2: {**WORK, "bytes": (8, "Q"), "device": (32, "I"), "stream": (40, "I"), "from_device": (44, "I"),
              "to_device": (52, "I"), "correlation": (60, "I")},
    MEMSET: {**WORK, "value": (4, "I"), "bytes": (8, "Q"), "device": (32, "I"), "stream": (40, "I"),
             "correlation": (44, "I"), "node": (64, "Q"), "graph": (72, "I")},
    RUNTIME_API: {"cbid": (4, "I"), "start": (8, "Q"), "end": (16, "Q"), "thread": (28, "I"), "correlation": (32, "I")},
    DEVICE: {"bandwidth": (8, "Q"), "clock": (36, "I"), "multiprocessors": (44, "I"), "id": (112, "I"),
             "uuid": (120, "16B"), "name": (136, "Q")},
    OVERHEAD: {"start": (24, "Q"), "end": (32, "Q")},
    SYNCHRONIZATION: {"type": (4, "I"), "start": (8, "Q"), "end": (16, "Q"), "stream": (32, "I")},
    EXTERNAL: {"external_kind": (4, "I"), "external": (8, "Q"), "correlation": (16, "I")},
    GRAPH: {"correlation": (4, "I"), "start": (8, "Q"), "end": (16, "Q"), "graph": (28, "I"), "stream": (36, "I")},
}
FIELDS[DRIVER_API] = FIELDS[RUNTIME_API]
SINCE_11 = {"node", "graph"}  # CUDA 10's records end before them


class CallbackData(ctypes.Structure):
    _fields_ = [("site", ctypes.c_int), ("function", ctypes.c_char_p), ("parameters", ctypes.c_void_p),
                ("status", ctypes.POINTER(ctypes.c_int)), ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p),
                ("context_id", ctypes.c_uint32), ("data", ctypes.c_void_p), ("correlation", ctypes.c_uint32)]


class GraphData(ctypes.Structure):
    _fields_ = [("graph", ctypes.c_void_p), ("original_graph", ctypes.c_void_p), ("node", ctypes.c_void_p),
                ("original_node", ctypes.c_void_p), ("node_type", ctypes.c_int), ("dependency", ctypes.c_void_p),
                ("executable", ctypes.c_void_p)]


class ResourceData(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("graph", ctypes.POINTER(GraphData))]


REQUESTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                             ctypes.POINTER(ctypes.c_size_t))
COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t,
                             ctypes.c_size_t)
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)


def decode(address, version):
    kind = ctypes.c_uint32.from_address(address).value
    record = types.SimpleNamespace(kind=kind)
    for field, (offset, form) in FIELDS.get(kind, {}).items():
        if version.startswith("10") and field in SINCE_11:
            continue
        values = struct.unpack("<" + form, ctypes.string_at(address + offset, struct.calcsize("<" + form)))
        setattr(record, field, values[0] if len(values) == 1 else values)
    if hasattr(record, "name"):
        record.name = ctypes.c_char_p(record.name).value.decode()
    return record


class Cupti:
    def __init__(self, folder, version="13", kinds=(), buffer_bytes=1 << 16, buffers=None):
        self.library = ctypes.CDLL(os.path.join(folder, f"libcupti.so.{version}"))
        self.version = version
        self.records, self.callbacks, self.completed, self.parameters = [], [], [], []
        self.buffer_bytes, self.left = buffer_bytes, buffers
        self.buffers, self.subscriber = {}, ctypes.c_void_p()
        self.kept = (REQUESTED(self.request), COMPLETED(self.complete), CALLBACK(self.call_back))
        if kinds:
            self.ok(self.library.cuptiActivityRegisterCallbacks(*self.kept[:2]))
        for kind in kinds:
            self.ok(self.library.cuptiActivityEnable(kind))

    @staticmethod
    def ok(status):
        assert status == 0, status

    def __getattr__(self, name):
        return getattr(self.library, "cupti" + name)

    def request(self, buffer, size, most):
        buffer[0], size[0], most[0] = None, 0, 0
        if self.left == 0:
            return
        if self.left is not None:
            self.left -= 1
        memory = ctypes.create_string_buffer(self.buffer_bytes)
        self.buffers[ctypes.addressof(memory)] = memory
        buffer[0], size[0] = ctypes.addressof(memory), self.buffer_bytes

    def complete(self, _context, _stream, buffer, size, valid):
        assert size == self.buffer_bytes
        record, count = ctypes.c_void_p(), 0
        while self.library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ) == 0:
            self.records.append(decode(record.value, self.version))
            count += 1
        self.completed.append(count)
        del self.buffers[buffer]

    def call_back(self, _user, domain, cbid, data):
        if domain != RESOURCE:
            call = CallbackData.from_address(data)
            self.callbacks.append((domain, cbid, "exit" if call.site else "enter", call.function.decode(),
                                   call.correlation, call.symbol.decode() if call.symbol else None))
            if call.parameters:
                self.parameters.append(ctypes.string_at(call.parameters, 40))
            return
        resource = ResourceData.from_address(data)
        graph = resource.graph.contents if resource.graph else GraphData()
        self.callbacks.append((domain, cbid, self.node_id(graph.original_node), self.node_id(graph.node)))

    def node_id(self, node):
        number = ctypes.c_uint64()
        if node:
            self.ok(self.library.cuptiGetGraphNodeId(ctypes.c_void_p(node), ctypes.byref(number)))
        return number.value

    def subscribe(self, *wanted):
        self.ok(self.library.cuptiSubscribe(ctypes.byref(self.subscriber), self.kept[2], None))
        for what in wanted:
            domain, *cbid = what if isinstance(what, tuple) else (what,)
            function = self.library.cuptiEnableCallback if cbid else self.library.cuptiEnableDomain
            self.ok(function(1, self.subscriber, domain, *cbid))

    def flush(self, flag=0):
        self.ok(self.library.cuptiActivityFlushAll(flag))
        return self.records

    def of(self, *kinds):
        return [record for record in self.records if record.kind in kinds]
