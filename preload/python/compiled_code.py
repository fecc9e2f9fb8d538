"""Lists what torch.compile keeps of its work: compilations, graph breaks, and which module each call of a library's operator is of.

compiled_code.cc runs this text when the interpreter ends, in a dictionary of its own, if the program compiled something. It imports
nothing that the program has not imported, changes nothing, and runs no operator. What it reads is PyTorch's own and may change with
any release: each part that fails says so and the others go on. `facts`: texts in the order of trace::CompiledCode's fields, each with a
NUL after it; of kind REFUSED only `text`. compiled_calls.py stands before it in the same text and reads the graphs and their code.
"""
import functools
import re
import sys
import types

compiled_calls = types.SimpleNamespace(**globals())  # what that text defines

FIELDS = ("kind", "region", "is_backward", "file", "line", "compile_ns", "count", "function", "text", "module", "part", "by_order")
REFUSED, COMPILATION, GRAPH_BREAK, KERNEL, RECOMPILE_LIMIT, KERNEL_PART = range(6)
MOST_TEXT = 400
MOST_FACTS = 4096  # of each kind


def fact(kind, **fields):
    fields["kind"] = kind
    texts = [str(fields[name]) if fields.get(name) is not None else "" for name in FIELDS]
    return "".join(text.replace("\0", " ")[:MOST_TEXT] + "\0" for text in texts)


def reason(text):
    """The first line of a reason, what PyTorch suggests, and where."""
    first = " ".join(text.split("\n")[0].split("  # ")[0].split())
    hint = re.search(r"Hint: (.*)", text)
    at = re.findall(r'File "([^"]*)", line (\d+)', text)
    if at:
        first += " ({}:{})".format(at[-1][0].rsplit("/", 1)[-1], at[-1][1])
    return first + ". PyTorch: " + hint.group(1) if hint else first


def compilations(utils):
    functions = {}  # by their number
    for metrics in utils.get_compilation_metrics():
        of = vars(metrics)
        if of["compile_id"] is None:  # a graph that the program had compiled by inductor itself, as for a package
            continue
        why = of.get("recompile_reason") or of.get("fail_reason") or ""
        number, function = of["compile_id"].split("/")[0], (of["co_name"], of["co_filename"], of["co_firstlineno"])
        if (of.get("fail_reason") or "").startswith("Dynamo recompile limit exceeded"):
            name, file, line = functions.get(number, function)
            yield fact(RECOMPILE_LIMIT, region=of["compile_id"], file=file, line=line, function=name, text=reason(why))
            continue
        functions[number] = function
        yield fact(COMPILATION, region=of["compile_id"], is_backward=int(not of["is_forward"]), file=of["co_filename"],
                   line=of["co_firstlineno"], compile_ns=(of["duration_us"] or 0) * 1000, count=of["graph_op_count"],
                   function=of["co_name"], text=reason(why))


def graph_breaks(utils):
    counts = {}
    for broken in utils.graph_break_reasons:
        frame = broken.user_stack[-1] if broken.user_stack else None
        key = (frame and frame.filename, frame and frame.lineno, frame and frame.name, reason(broken.reason))
        counts[key] = counts.get(key, 0) + 1
    for (file, line, function, text), count in counts.items():
        yield fact(GRAPH_BREAK, file=file, line=line, function=function, text=text, count=count)


# Where a graph's compiled code is: what Dynamo installed for a compiled function refers to it through closures.
def contents(value):
    if isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # empty
                pass
        yield from vars(value).values()
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, types.BuiltinMethodType):  # CompiledFunction.apply of PyTorch 2.14
        yield value.__self__
    elif isinstance(value, (tuple, list)):
        yield from value[:64]
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args)
    elif isinstance(value, type):
        if value.__name__ == "CompiledFunction":
            yield from vars(value).values()
    elif (type(value).__module__ or "").startswith(("torch._functorch", "torch._inductor", "torch._dynamo")):
        yield from getattr(value, "__dict__", {}).values()


def compiled_graphs(function, kind):
    seen, level = set(), [function]
    for _ in range(12):
        further = []
        for value in level:
            if id(value) in seen or len(seen) > 10000:
                continue
            seen.add(id(value))
            if type(value) is kind:
                yield value
            else:
                further += contents(value)
        level = further


def guarded_sources(manager):
    """"L['self']._modules['fc']._parameters['weight']" by the name that Dynamo makes of it; of two with one name neither."""
    sources, level = {}, [manager]
    while level:
        manager = level.pop()
        source = manager.get_source()
        name = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", re.sub(r"[^a-zA-Z0-9]+", "_", source)).lower()
        sources[name] = source if sources.get(name, source) == source else None
        level += manager.get_child_managers()
        for pair in getattr(manager, "get_key_value_managers", dict)().values():
            level += [child for child in pair if child is not None]
    return sources


def modules_of(sources, self_name):
    """By name: "fc"; ".fc" if it is of the function's own object; "net.fc" of several networks. Others than parameters have none."""
    found = {}
    for name, source in sources.items():
        at = re.match(r"(.*?)((?:\._modules\['[^']*'\])*)\._parameters\['[^']*'\]$", source or "")
        if at is not None:
            found[name] = (at.group(1), ".".join(re.findall(r"\['([^']*)'\]", at.group(2))))
    own = "L['%s']" % self_name
    networks = {network for network, _ in found.values()} - {own}
    modules = {}
    for name, (network, path) in found.items():
        variable = re.findall(r"\['(\w+)'\]", network)[-1:] if len(networks) > 1 else []
        modules[name] = "." + path if network == own else ".".join(variable + [path] * bool(path))
    return modules


def first_argument(code):
    """Of the program's function, also if this code goes on in it after a graph break."""
    made = sys.modules["torch._dynamo.resume_execution"].ContinueExecutionCache.generated_code_metadata
    while code in made:
        code = made[code].code
    return code.co_varnames[0] if code.co_argcount else ""


def kernel_facts(region, number, is_backward, calls):
    of = dict(region=region, is_backward=int(is_backward))
    for scope, parts, part, by_order in calls:
        module = next(iter(parts)) if len(parts) == 1 else ""
        yield fact(KERNEL, function=scope, module=module, part=part, by_order=int(by_order), count=number, **of)
        for name, elements in parts.items() if len(parts) > 1 else ():
            yield fact(KERNEL_PART, module=name, count=elements, **of)


def entries(utils):
    """Compiled functions that are still alive: their code, Dynamo's entry, and what Dynamo installed for them."""
    convert_frame = sys.modules["torch._dynamo.convert_frame"]
    entries_of = sys.modules["torch._dynamo.eval_frame"]._debug_get_cache_entry_list
    for reference in list(convert_frame.input_codes.seen):
        code = reference()
        for entry in entries_of(code) if code is not None else ():
            for hook in utils.CleanupManager.instance.get(entry.code, ()):
                if hook.name.startswith("__compiled_fn"):
                    yield code, entry, hook.scope.get(hook.name)


def parts_of(function):
    """DistributedDataParallel has a graph split by its buckets: each part, in the order in which they run, and the names of its inputs.
    Otherwise the function itself."""
    split = getattr(function, "_orig_mod", None)
    calls = [node for node in split.graph.nodes if node.op == "call_module"] if hasattr(split, "graph") else []
    return [(getattr(split, node.target), [argument.name for argument in node.args]) for node in calls] or [(function, None)]


def graphs_of(part, kind):
    """(graph, its code, whether of the backward pass), the forward pass first; empty if it is not clear which graph is which."""
    compiled = sorted(compiled_graphs(part, kind), key=lambda one: bool(one.fx_kwargs.get("is_backward")))
    graphs = [(compiled_calls.Graph(one.inductor_post_grad_graph_str), one, bool(one.fx_kwargs.get("is_backward"))) for one in compiled]
    return graphs if [is_backward for _, _, is_backward in graphs] in ([False], [False, True]) else []


def kernels_of_region(code, entry, parts, nodes):
    module_of = modules_of(guarded_sources(entry.guard_manager.root), first_argument(code))
    sizes_of = {name: sizes for name, sizes in nodes if name in module_of}
    for number, (graphs, names) in enumerate(parts):
        inputs = graphs[0][0].inputs
        placeholders = nodes[:sum("[" in kind for _, kind in inputs)] if names is None else [
            (name, sizes_of.get(name, [""])) for name in names]
        modules = compiled_calls.modules_of_inputs(graphs[0][0], placeholders, module_of)
        for graph, one, is_backward in graphs:
            again = graph.done_again(graphs[0][0]) if is_backward else set()
            calls = compiled_calls.kernels_of(graph, one.source_code, is_backward, modules, [name for name, _ in inputs], again)
            if getattr(one, "inductor_provenance_mapping_str", None) and "[Provenance debug handles]" in one.source_code:
                calls = compiled_calls.with_loops(calls, compiled_calls.annotated_kernels(one, first_argument(code), modules, again))
            yield from kernel_facts(str(entry.compile_id), number, is_backward, calls)


def kernels(utils):
    inductor = sys.modules.get("torch._inductor.output_code")
    if inductor is None:
        return
    shapes = {of["compile_id"]: of["graph_node_shapes"] for of in map(vars, utils.get_compilation_metrics()) if of["graph_node_shapes"]}
    regions = [entry for entry in entries(utils) if str(entry[1].compile_id) in shapes]
    has_found = False
    for code, entry, function in regions:
        nodes = [(name, [int(size) if size.isdigit() else size for size in sizes.split(", ") if size])
                 for name, sizes in re.findall(r"'(\w+)': \[([^\]]*)\]", shapes[str(entry.compile_id)])]
        parts = [(graphs_of(part, inductor.CompiledFxGraph), names) for part, names in parts_of(function)]
        if len({len(graphs) for graphs, _ in parts}) == 1 and parts[0][0]:
            has_found = True
            yield from kernels_of_region(code, entry, parts, nodes)
    generated = sys.modules["torch._inductor.codecache"].PyCodeCache.modules
    if regions and generated and not has_found:
        raise ValueError("the code of compiled functions is elsewhere")


def all_facts():
    utils = sys.modules["torch._dynamo.utils"]
    for part in (compilations, graph_breaks, kernels):
        try:
            for number, line in enumerate(part(utils)):
                if number == MOST_FACTS:
                    raise ValueError("there are more than %d" % MOST_FACTS)
                yield line
        except Exception as error:
            yield fact(REFUSED, text="%s: %s: %s" % (part.__name__.replace("_", " "), type(error).__name__, error))


facts = list(all_facts())
