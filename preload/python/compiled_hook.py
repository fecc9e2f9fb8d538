"""Has torch.compile keep the module of each operation in its graphs (DLHOOK_COMPILED=modules).

compiled_code.cc runs this text when a stack first goes through torch.compile, in a dictionary of its own. It imports nothing and
changes no operation: the module's name is an annotation of the graph's nodes, which the compiler carries through its transformations,
also to the backward pass, and writes into the graph's text, where compiled_code.py finds it. Whatever fails leaves the compilation as
it would be.
"""
import functools
import sys


def module_of(node):
    """"L[self].blocks.0.fc1": the innermost module that the program called; empty outside of any."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0].replace("'", "").replace('"', "") if stack else ""


def annotate(graph, seen):
    names = []
    for node in graph.nodes:
        name = module_of(node)
        names.append(name)
        if name and node.op not in ("placeholder", "output"):
            node.meta["custom"] = dict(node.meta.get("custom") or {}, dlhook=name)
    # Code that was compiled for the same graph of other modules is not this one: the compiler's caches tell them apart by this.
    config = sys.modules["torch.compiler.config"]
    seen.update("\n".join(names).encode())
    config.cache_key_tag = config.cache_key_tag.split(" dlhook ")[0] + " dlhook " + seen.hexdigest()


def watch(output_graph, seen):
    compile_graph = output_graph.OutputGraph.call_user_compiler

    @functools.wraps(compile_graph)
    def call_user_compiler(self, graph_module, *arguments, **named):
        try:
            annotate(graph_module.graph, seen)
        except Exception:
            pass
        result = compile_graph(self, graph_module, *arguments, **named)
        # Without a number here the graph of a backward pass that is compiled later has no list of its kernels' operations.
        debug = sys.modules.get("torch._inductor.debug")
        if getattr(debug, "_pre_grad_graph_id", 0) is None:
            debug._pre_grad_graph_id = -1
        return result

    output_graph.OutputGraph.call_user_compiler = call_user_compiler


watch(sys.modules["torch._dynamo.output_graph"], sys.modules["hashlib"].sha256())
