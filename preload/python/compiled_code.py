"""Lists what torch.compile keeps of its work: compilations, graph breaks, and which module each call of a library's operator is of.

compiled_code.cc runs this text when the interpreter ends, in a dictionary of its own, if the program compiled something. It imports
nothing that the program has not imported, changes nothing, and runs no operator. What it reads is PyTorch's own and may change with
any release: each part that fails says so and the others go on. `facts`: texts in the order of trace::CompiledCode's fields, each with a
NUL after it; of kind REFUSED only `text`.
"""
import functools
import re
import sys
import types

FIELDS = ("kind", "region", "is_backward", "file", "line", "compile_ns", "count", "function", "text", "module", "part", "by_order")
REFUSED, COMPILATION, GRAPH_BREAK, KERNEL, RECOMPILE_LIMIT, KERNEL_PART = range(6)
DATA, WEIGHTS, RECOMPUTE = 1, 2, 3
# Also an operator with random numbers, which activation checkpointing has called again with the same ones.
OPERATOR = r"torch\.ops\.(?:higher_order\.run_\w+_rng_state\((?:\w+, )?torch\.ops\.)?(\w+)\.(\w+)\.\w+(?:\(|, )"
MOST_TEXT = 400
MOST_FACTS = 4096  # of each kind
MOST_PASSES = 16   # over a graph's operators, each of which may tell further ones apart
CONSTANTS = ("full", "full_like", "scalar_tensor", "iota", "arange", "empty", "zeros", "ones")
VIEWS = ("permute", "reshape", "view", "t", "transpose", "expand", "unsqueeze", "squeeze", "as_strided", "alias", "detach", "clone",
         "_to_copy", "convert_element_type", "select", "slice", "unbind", "split", "split_with_sizes", "chunk")


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


class Graph:
    """The text of a graph after its transformations: inputs, calls of operators, outputs. Its lines of the program are those of the
    first program that had this graph, as inductor's cache keeps it."""

    def __init__(self, text):
        head = re.search(r"def forward\(self(.*?)\):?\s*(?:->.*)?\n", text)
        self.inputs = re.findall(r'(\w+): "([^"]*)"', head.group(1))
        self.calls, self.made_of, self.values = [], {}, {}
        names = {name for name, _ in self.inputs}
        for line in text[head.end():].split("\n"):
            made = re.match(r'\s*(\w+)(?:: "\w+\[([^\]]*)\][^"]*")? = (.*?)(?:;  .*)?$', line)
            if made is None:
                continue
            name, shape, value = made.groups()
            self.values[name] = value
            call = re.match(OPERATOR + r"(.*)\)$", value)
            item = re.match(r"(\w+)\[\d+\]$", value)
            if call is None:
                self.made_of[name] = [item.group(1)] if item else []
                continue
            arguments = re.findall(r"\b[a-z_]\w*", call.group(3))
            if call.group(2) in VIEWS:
                self.made_of[name] = arguments[:1]
            else:
                self.calls.append(("%s::%s" % call.group(1, 2), name, shape, arguments))
        returned = re.search(r"return \((.*)\)\s*$", text.rstrip())
        self.outputs = [self.origin(word.strip()) for word in returned.group(1).split(",")] if returned else []
        self.calls = [Call(operator, {self.origin(word) for word in arguments} & names,
                           {i for i, output in enumerate(self.outputs) if output == name}, shape, name)
                      for operator, name, shape, arguments in self.calls]

    def origin(self, name):
        while self.made_of.get(name):
            name = self.made_of[name][0]
        return name

    def done_again(self, forward):
        """Names of what is the forward pass's: the compiler copies its nodes, with their names, into the backward pass."""
        return {name for name, value in self.values.items()
                if forward.values.get(name) == value or value.startswith("torch.ops.higher_order.run_with_rng_state(")}


class Call:
    """`name`: of a graph's node; of a call in generated code its scope's."""

    def __init__(self, operator, inputs, outputs, shape, name):
        self.operator, self.inputs, self.outputs, self.shape, self.name = operator, inputs, outputs, shape, name

    def may_be(self, node):
        """Copies between may hide inputs and outputs."""
        same = self.operator == node.operator and self.inputs <= node.inputs and self.outputs <= node.outputs
        return same and (not self.shape or not node.shape or self.shape == node.shape)


def start_of(source):
    """Of the code of a graph. Parts of it that become CUDA graphs are functions before the one that calls them."""
    call = max(source.find("def call("), 0)
    part = source.find("\ndef partition_", 0, call)
    return call if part < 0 else part


def library_calls(source, names):
    """The calls of operators in generated code, in their order."""
    call = source.find("def call(")
    body = source[start_of(source):source.find("\ndef ", call + 1)] if call >= 0 else ""
    shapes = dict(re.findall(r"(\w+) = empty_strided\w*\(\(([^)]*)\)", body) +
                  re.findall(r"assert_size_stride\((\w+), \(([^)]*)\)", body))
    items = dict(re.findall(r"(\w+) = (\w+)\[\d+\]", body))
    returned = re.search(r"\n\s*return \((.*)\)", body[body.find("def call("):])
    outputs = re.sub(r"reinterpret_tensor\((\w+)(?:[^()]|\([^()]*\))*\)", r"\1", returned.group(1)).split(", ") if returned else []
    for call in re.finditer(r"\n\s*(?:(\w+) = )?(?:extern_kernels\.(\w+)\(|" + OPERATOR + r")(.*)\)", body):
        out = re.search(r"out=(\w+)", call.group(5))
        made = out.group(1) if out else call.group(1)
        operator = "aten::" + call.group(2) if call.group(2) else "%s::%s" % call.group(3, 4)
        yield Call(operator, set(re.findall(r"\w+", call.group(5))) & names,
                   {i for i, output in enumerate(outputs) if items.get(output, output) == made},
                   shapes.get(made, "").strip(", "), operator)
    if "RAIIAtenRecordFunctionHandle" in source:
        yield from calls_of_cpp(source, names)


def calls_of_cpp(source, names):
    """With cpp_wrapper operators are functions of PyTorch's C interface. Where they report themselves, it is by their own names."""
    handles = {new: old for old, new in re.findall(r"aoti_torch_new_tensor_handle\((\w+), &(\w+)\)", source)}
    outputs = re.findall(r"output_handles\[(\d+)\] = (\w+)\.release", source)
    for function, operator, out, arguments in re.findall(r"\((aoti_torch_cpu_(\w+?)(_out)?)\((.*)\)\);", source):
        words = re.findall(r"\w+", arguments)
        made = set(words[:1] if out else re.findall(r"&(\w+)_handle", arguments))
        yield Call("aten::" + operator, {handles.get(word, word) for word in words} & names,
                   {int(i) for i, output in outputs if output in made}, "", function)


def match(calls, nodes):
    """For each call its node and whether only the order decided; (None, False) where it is not certain."""
    found, left = {}, list(nodes)
    for _ in range(MOST_PASSES):
        before = len(found)
        for i, call in enumerate(calls):
            candidates = [node for node in left if call.may_be(node)] if i not in found else []
            if len(candidates) == 1:
                found[i] = (candidates[0], False)
                left.remove(candidates[0])
        if len(found) == before:
            break
    called = {call.operator for call in calls}
    if [call.operator for call in calls] == [node.operator for node in nodes if node.operator in called]:
        in_order = [node for node in nodes if node.operator in called]
        for i, call in enumerate(calls):
            if i not in found and in_order[i] in left and call.may_be(in_order[i]):
                found[i] = (in_order[i], True)
    return [found.get(i, (None, False)) for i in range(len(calls))]


def modules_of_inputs(graph, placeholders, module_of):
    """By the forward graph's inputs: their modules. Empty unless its tensors are Dynamo's, in number and sizes."""
    tensors = [(name, re.search(r"\[([^\]]*)\]", kind).group(1)) for name, kind in graph.inputs if "[" in kind]
    if len(tensors) != len(placeholders):
        return {}
    modules = {}
    for (name, shape), (placeholder, sizes) in zip(tensors, placeholders):
        if all(isinstance(size, int) for size in sizes) and shape != ", ".join(map(str, sizes)):
            return {}
        if placeholder in module_of:
            modules[name] = module_of[placeholder]
    return modules


def kernels_of(graph, source, is_backward, modules, gradients, again):
    """For each operator of a library its name, {module: 1}, what it computes, and whether the order decided."""
    names = {name for name, _ in graph.inputs}
    calls = list(library_calls(source, names))
    for call, (node, by_order) in zip(calls, match(calls, graph.calls)):
        found, part = set(), 0
        if node is not None:
            of_inputs = {modules[name] for name in node.inputs if name in modules}
            of_outputs = {modules.get(gradients[i]) for i in node.outputs if is_backward and i < len(gradients)} - {None}
            found = of_inputs | of_outputs
            if is_backward and bool(of_inputs) != bool(of_outputs):
                part = WEIGHTS if of_outputs else DATA
        nodes = [node] if node is not None else [one for one in graph.calls if one.operator == call.operator]
        if nodes and all(one.name in again for one in nodes):
            part = RECOMPUTE
        yield call.name, dict.fromkeys(found, 1) if len(found) == 1 else {}, part, by_order


# With DLHOOK_COMPILED=modules loops that the compiler generated are scopes, too, it keeps which of the graph's nodes each kernel is
# made of, and compiled_hook.py has annotated these with their modules.
def annotated_nodes(text, self_name):
    """By name: operator; the elements of its largest operand or result; its module as modules_of() has it, "" outside of any. What
    the compiler added (gradients of slices) is of the module of its operands, if that is one."""
    nodes, sizes, module, is_programs = {}, {}, "", False
    annotation = re.compile(r"'dlhook': '([A-Z]+\[\w+\][^'.]*)\.?([^']*)'")
    own = "L[%s]" % self_name
    has_several = len({network for network, _ in annotation.findall(text)} - {own}) > 1
    for line in map(str.strip, text.split("\n")):
        if not line:
            module, is_programs = "", False
        if line.startswith("#"):
            is_programs = "File: " in line
            found = annotation.search(line)
            network, path = found.groups() if found else ("", "")
            variable = re.findall(r"\[(\w+)\]", network)[-1:] if has_several else []
            module = "." + path if network == own else ".".join(variable + [path] * bool(path))
        for name, shape in re.findall(r'(\w+): "\w+\[([^\]]*)\]', line):
            numbers = [int(size) for size in shape.split(", ") if size.isdigit()]
            sizes[name] = functools.reduce(lambda product, size: product * size, numbers, 1)
        made = re.match(r'(\w+)(?:: "[^"]*")? = ' + OPERATOR + r"(.*?)\)(?:;.*)?$", line)
        if made:
            words = re.findall(r"[a-z_]\w*", made.group(4)) + [made.group(1)]
            around = {nodes[word][2] for word in words[:-1] if word in nodes} - {""}
            inherited = around.pop() if not is_programs and len(around) == 1 else ""
            nodes[made.group(1)] = (made.group(3), max(sizes.get(word, 1) for word in words), module or inherited)
    return nodes


def annotated_kernels(graph, self_name, modules, again):
    """For each call of a kernel the name of its scope, {module: elements}, "" for what is of none, and RECOMPUTE if it computes nothing
    else than what the forward pass did."""
    nodes = annotated_nodes(graph.inductor_post_grad_graph_str, self_name)
    mapping = sys.modules["json"].loads(graph.inductor_provenance_mapping_str)["cppCodeToPost"]
    body = graph.source_code[start_of(graph.source_code):]
    calls = []
    for kernel, number, called in re.findall(r"(?:#|//) \[Provenance debug handles\] (\S+):(\d+)(?:\s+\w+ = (\S+\.run_.*))?", body):
        library = re.match(OPERATOR, called) or re.match(r"(?:extern_kernels|aten|torch\.ops\.(\w+))\.(\w+)", kernel)
        of_cpp = re.match(r"aoti_torch_cpu_(\w+?)(?:_out)?$", kernel)  # cpp_wrapper calls operators by functions of its own
        operator = library.group(2) if library else of_cpp.group(1) if of_cpp else ""
        scope = kernel  # also Triton's, whose launches have its name
        if library:
            scope = "%s::%s" % (library.group(1) or "aten", operator)
        elif kernel.startswith("cpp_"):
            scope = "graph_%s_%s" % (graph.fx_kwargs.get("graph_id"), kernel)
        calls.append((scope, operator, mapping.get("%s:%s" % (kernel, number), [])))
    of_libraries = {operator for _, operator, _ in calls}
    for scope, operator, names in calls:
        known = [(name, *nodes[name]) for name in names if name in nodes]
        if operator:
            known = [node for node in known if node[1] == operator][-1:]
        else:
            known = [node for node in known if node[1] not in of_libraries and node[1] not in VIEWS + CONSTANTS]
        parts = {}
        for _, _, elements, module in known:
            parts[module] = parts.get(module, 0) + elements
        if not known:  # weights in another layout
            parts = dict.fromkeys({modules[name] for name in names if name in modules}, 1)
        yield scope, parts, RECOMPUTE if known and all(name in again for name, *_ in known) else 0


def with_loops(calls, annotated):
    """All kernels instead of those of libraries, of which `calls` knows what they compute."""
    calls = list(calls)
    for scope, parts, part in annotated:
        of_library = calls.pop(0) if calls and calls[0][0] == scope else (scope, {}, 0, False)
        is_known = set(parts) - {""}
        yield (scope, parts if is_known else of_library[1], part or of_library[2], not is_known and of_library[3])


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
    graphs = [(Graph(one.inductor_post_grad_graph_str), one, bool(one.fx_kwargs.get("is_backward"))) for one in compiled]
    return graphs if [is_backward for _, _, is_backward in graphs] in ([False], [False, True]) else []


def kernels_of_region(code, entry, parts, nodes):
    module_of = modules_of(guarded_sources(entry.guard_manager.root), first_argument(code))
    sizes_of = {name: sizes for name, sizes in nodes if name in module_of}
    for number, (graphs, names) in enumerate(parts):
        inputs = graphs[0][0].inputs
        placeholders = nodes[:sum("[" in kind for _, kind in inputs)] if names is None else [
            (name, sizes_of.get(name, [""])) for name in names]
        modules = modules_of_inputs(graphs[0][0], placeholders, module_of)
        for graph, one, is_backward in graphs:
            again = graph.done_again(graphs[0][0]) if is_backward else set()
            calls = kernels_of(graph, one.source_code, is_backward, modules, [name for name, _ in inputs], again)
            if getattr(one, "inductor_provenance_mapping_str", None) and "[Provenance debug handles]" in one.source_code:
                calls = with_loops(calls, annotated_kernels(one, first_argument(code), modules, again))
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
