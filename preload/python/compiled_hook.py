"""Has torch.compile keep the module of each operation in its graphs (DLHOOK_COMPILED=modules).

compiled_code.cc runs this text when a stack first goes through torch.compile, in a dictionary of its own. It changes no operation: the
module's name is an annotation of the graph's nodes, which the compiler carries through its transformations, also to the backward pass,
and writes into the graph's text, where compiled_code.py finds it. Whatever fails leaves the compilation as it would be.
"""
import functools
import sys


def module_of(node):
    """"L[self].blocks.0.fc1": the innermost module that the program called; empty outside of any."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0].replace("'", "").replace('"', "") if stack else ""


def nodes_of(graph_module):
    """Also of the graphs that operations run, as of checkpointing."""
    return [node for module in graph_module.modules() if hasattr(module, "graph") for node in module.graph.nodes]


def annotate(graph_module):
    for node in nodes_of(graph_module):
        name = module_of(node)
        if name and node.op not in ("placeholder", "output"):
            node.meta["custom"] = dict(node.meta.get("custom") or {}, dlhook=name)


def tell_apart(details):
    """Code that was compiled for the same graph of other modules is not this one: the keys of the compiler's caches have the names."""
    begin = details.__init__

    @functools.wraps(begin)
    def __init__(self, gm, *arguments, **named):
        begin(self, gm, *arguments, **named)
        try:
            names = [(node.meta.get("custom") or {}).get("dlhook", "") for node in nodes_of(gm)]
            self.cache_key_tag += " dlhook " + "\n".join(names)
        except Exception:  # no graph, or a compiler that keeps them otherwise
            pass

    details.__init__ = __init__


def watch(output_graph):
    compile_graph = output_graph.OutputGraph.call_user_compiler
    told_apart = []

    @functools.wraps(compile_graph)
    def call_user_compiler(self, graph_module, *arguments, **named):
        try:
            if not told_apart:
                __import__("torch._inductor.codecache")  # which the compiler imports next
                tell_apart(sys.modules["torch._inductor.codecache"].FxGraphHashDetails)
                told_apart.append(True)
            annotate(graph_module)
        except Exception:
            pass
        result = compile_graph(self, graph_module, *arguments, **named)
        # Without a number here the graph of a backward pass that is compiled later has no list of its kernels' operations.
        debug = sys.modules.get("torch._inductor.debug")
        if getattr(debug, "_pre_grad_graph_id", 0) is None:
            debug._pre_grad_graph_id = -1
        return result

    output_graph.OutputGraph.call_user_compiler = call_user_compiler


watch(sys.modules["torch._dynamo.output_graph"])
