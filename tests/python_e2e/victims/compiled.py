"""A program whose torch._dynamo keeps things as PyTorch 2.13's does, or otherwise. argv: library, what it keeps."""

import ctypes
import functools  # as PyTorch does  # noqa: F401
import os
import re  # noqa: F401
import sys
import types
import warnings

KEPT = {"compile_id": "0/0", "is_forward": True, "co_name": "forward", "co_filename": "/srv/net.py", "co_firstlineno": 6,
        "duration_us": 1500, "graph_op_count": 3, "recompile_reason": None, "fail_reason": None, "graph_node_shapes": None}
AGAIN = {**KEPT, "compile_id": "0/1", "recompile_reason": "0/0: k == 1   # return y * k\nUser stack trace:\n"
                                                          '  File "/srv/größe.py", line 9, in forward\n    return y * k'}
BACKWARD = {**KEPT, "is_forward": False, "co_name": None, "co_filename": None, "co_firstlineno": None, "graph_op_count": None}


def kept_by_torch():
    frame = types.SimpleNamespace(filename="/srv/net.py", lineno=8, name="forward")
    broken = types.SimpleNamespace(reason="Unsupported Tensor.item() call\n  Explanation: …\n  Hint: Do otherwise.", user_stack=[frame])
    utils = types.ModuleType("torch._dynamo.utils")
    utils.graph_break_reasons = [broken, broken]
    utils.get_compilation_metrics = lambda: [types.SimpleNamespace(**of) for of in (KEPT, BACKWARD, AGAIN)]
    return utils


def changed():
    utils = kept_by_torch()
    utils.get_compilation_metrics = lambda: [types.SimpleNamespace(renamed="0/0")]
    return utils


def nothing():
    utils = kept_by_torch()
    utils.get_compilation_metrics, utils.graph_break_reasons = list, []
    return utils


def leaves():
    """PyTorch's function ends the process's work in another way."""
    utils = kept_by_torch()
    utils.get_compilation_metrics = lambda: sys.exit(3)
    return utils


def compile_much(depth=60):
    """As a compiler: thousands of stacks, each call from another line of its own; and then a stack of the program's."""
    for number in range(5000):
        deep = "\n" * number + "def inner(depth):\n    inner(depth - 1) if depth else %s\ninner(%d)" % (product, depth)
        exec(compile(deep, "/l/torch/_dynamo/convert_frame.py", "exec"), {**globals()})
    exec(compile(product, "/srv/after.py", "exec"))


library = ctypes.CDLL(sys.argv[1])
one = (ctypes.c_double * 1)(1)
kept = {"kept": kept_by_torch, "interrupted": kept_by_torch, "forks": kept_by_torch, "changed": changed,
        "nothing": nothing, "leaves": leaves, "much": nothing}
sys.modules["torch._dynamo.utils"] = kept[sys.argv[2]]()
product = "library.cblas_dger(101, 1, 1, ctypes.c_double(1), one, 1, one, 1, (ctypes.c_double * 1)(), 1)"
exec(compile(product, "/l/torch/_dynamo/eval_frame.py", "exec"))  # as a compiled function is called
if sys.argv[2] == "much":
    compile_much()
print("done", flush=True)
if sys.argv[2] == "forks":  # the child does nothing
    warnings.simplefilter("ignore")
    child = os.fork()
    sys.exit(os.waitpid(child, 0)[1] if child != 0 else 0)
if sys.argv[2] == "interrupted":
    raise KeyboardInterrupt
