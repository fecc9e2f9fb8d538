"""Tells of which operations of a graph, and so of which module, each call in the code that inductor made of it is.

Part of the text that compiled_code.cc runs (compiled_code_text.S): it stands before compiled_code.py, which says how it runs. What it
reads are texts that PyTorch writes; compiled_code.py knows where it keeps them.
"""
import functools
import re
import sys

DATA, WEIGHTS, RECOMPUTE = 1, 2, 3
# Also an operator with random numbers, which activation checkpointing has called again with the same ones.
OPERATOR = r"torch\.ops\.(?:higher_order\.run_\w+_rng_state\((?:\w+, )?torch\.ops\.)?(\w+)\.(\w+)\.\w+(?:\(|, )"
MOST_PASSES = 16  # over a graph's operators, each of which may tell further ones apart
CONSTANTS = ("full", "full_like", "scalar_tensor", "iota", "arange", "empty", "zeros", "ones")
VIEWS = ("permute", "reshape", "view", "t", "transpose", "expand", "unsqueeze", "squeeze", "as_strided", "alias", "detach", "clone",
         "_to_copy", "convert_element_type", "select", "slice", "unbind", "split", "split_with_sizes", "chunk", "getitem")


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
def annotated_nodes(text, self_name, is_backward=False):
    """By name: operator; the elements of its largest operand or result; its module as modules_of() has it, "" outside of any. What
    the compiler added (gradients of slices), and sums of a value's gradients, are of the module of their operands, if that is one. Not
    of a constant's: there is one for all modules."""
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
        item = re.match(r'(\w+): "[^"]*" = (\w+)\[\d+\]', line)
        if item and item.group(2) in nodes:
            nodes[item.group(1)] = ("getitem", sizes.get(item.group(1), 1), nodes[item.group(2)][2])
        if made:
            words = re.findall(r"[a-z_]\w*", made.group(4)) + [made.group(1)]
            around = {nodes[word][2] for word in words[:-1] if word in nodes and nodes[word][0] not in CONSTANTS} - {""}
            is_added = not is_programs or is_backward and made.group(3) == "add"
            inherited = around.pop() if is_added and len(around) == 1 else ""
            nodes[made.group(1)] = (made.group(3), max(sizes.get(word, 1) for word in words), module or inherited)
    return nodes


def annotated_kernels(graph, self_name, modules, again):
    """For each call of a kernel the name of its scope, {module: elements}, "" for what is of none, and RECOMPUTE if it computes nothing
    else than what the forward pass did."""
    nodes = annotated_nodes(graph.inductor_post_grad_graph_str, self_name, bool(graph.fx_kwargs.get("is_backward")))
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
            done = [node for node in known if node[1] not in of_libraries and node[1] not in CONSTANTS]
            known = [node for node in done if node[1] not in VIEWS] or done  # only copies: weights of another type
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
