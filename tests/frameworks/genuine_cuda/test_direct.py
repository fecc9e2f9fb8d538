"""The genuine libcudnn's functions for single operations, and the genuine libcublasLt, without a device: calls fail,
and dlhook's record of them equals the values from which their descriptors were made."""

import genuine
from genuine import e2e

CUDNN_TYPES = {0: "F32", 1: "F64", 2: "F16", 3: "S8", 4: "S32", 5: "S8", 9: "BF16"}
CUDA_TYPES = {0: "F32", 1: "F64", 2: "F16", 3: "S8", 4: "C32", 10: "S32", 14: "BF16", 28: "F8_E4M3"}
VECTORS = {5: 4}  # CUDNN_DATA_INT8x4
TRANSPOSES = "NTC"


def strides_of(tensor):
    """cudnnTensorFormat_t: NCHW, NHWC, NCHW_VECT_C (in vectors)."""
    if "strides" in tensor:
        return tensor["strides"]
    dims = list(tensor["dims"])
    order = list(range(len(dims)))
    if tensor["format"] == 1:
        order = [0, *order[2:], 1]
    if tensor["format"] == 2:
        dims[1] //= VECTORS[tensor["type"]]
    strides = [0] * len(dims)
    distance = 1
    for axis in reversed(order):
        strides[axis] = distance
        distance *= dims[axis]
    return strides


class Legacy(genuine.Case):
    def check_tensors(self, cudnn, expected):
        actual = {e2e.one(tensor, "role"): (e2e.one(tensor, "type"), tensor["dim"], tensor["stride"],
                                            e2e.one(tensor, "vector_count", 0) or 1) for tensor in cudnn["tensor"]}
        self.assertEqual(actual, {role: (CUDNN_TYPES[tensor["type"]], tensor["dims"], strides_of(tensor),
                                         VECTORS.get(tensor["type"], 1)) for role, tensor in expected})
        self.assertEqual(len(cudnn["tensor"]), len(expected))

    def check_operation(self, said, cudnn):
        self.check_tensors(cudnn, said["tensors"])
        expected = {"operation": said["operation"], "workspace_bytes": said.get("workspace", 0)}
        expected.update((name, said.get(name, -1)) for name in ("algorithm", "math_type", "mode"))
        if "convolution_mode" in said:
            expected.update(convolution_mode=said["convolution_mode"], groups=said["groups"],
                            compute_type=CUDNN_TYPES[said["compute_type"]])
        self.check_fields(cudnn, expected)
        for name in ("pad", "stride", "dilation"):
            self.assertEqual(cudnn.get(name, []), said.get(name, []), name)

    def check_call(self, said, call):
        self.assertEqual(e2e.one(call.op, "function"), said["function"])
        self.assertEqual(call.status, said["status"])
        self.assertNotEqual(call.status, 0, "there is no device")
        self.assertEqual(call.addresses, [0x7fb000000000 + number * 65536 if number else 0 for number in said["data"]])
        if "measured" not in said:
            self.check_operation(said, e2e.one(call.op, "cudnn"))
            return
        search = e2e.one(call.op, "cudnn_search")
        self.check_fields(search, {"measured": said["measured"], "requested": said["requested"]})
        self.assertEqual(search.get("candidate", []), [])
        self.check_operation(said, e2e.one(search, "problem"))

    def test_operations(self):
        for host in ("launcher", "writer"):
            functions = set()
            pairs = self.said_and_recorded(host, lambda name: not name.startswith(("cudnnCreate", "cudnnSet")),
                                           "legacy", genuine.cudnn(), self.out)
            for said, call in pairs:
                functions.add(said["function"])
                with self.subTest(host=host, function=said["function"], operands=said["data"]):
                    self.check_call(said, call)
            self.assertGreaterEqual(len(functions), 14)


class Lt(genuine.Case):
    def check_product(self, said, call):
        gemm = e2e.one(call.op, "gemm")
        a, b, d = (CUDA_TYPES[number] for number in said["types"])
        search = said["function"] == "cublasLtMatmulAlgoGetHeuristic"
        self.check_fields(gemm, {
            "a_type": a, "b_type": b, "c_type": d, "row_major": False, "m": said["m"], "n": said["n"], "k": said["k"],
            "trans_a": TRANSPOSES[said["transposed"][0]], "trans_b": TRANSPOSES[said["transposed"][1]],
            "lda": said["leading"][0], "ldb": said["leading"][1], "ldc": said["leading"][2], "batch": said["batch"],
            "kind": "HEURISTIC" if search else ""})
        cuda = e2e.one(gemm, "cuda")
        self.check_fields(cuda, {
            "lt": True, "compute_type": said["compute_type"], "scale_type": said["scale_type"],
            "epilogue": said["epilogue"], "order_a": said["orders"][0] + 1, "order_b": said["orders"][1] + 1,
            "order_d": said["orders"][2] + 1,
            "fast_accumulation": said["fast_accumulation"], "math_mode": -1})
        if search:
            self.check_fields(cuda, {"heuristic_requested": said["requested"], "heuristic_results": 0, "algorithm": -1})
        else:
            self.check_execution(said, cuda)

    def check_execution(self, said, cuda):
        chosen = said.get("configuration")
        self.check_fields(cuda, {"chooser": "FIXED" if chosen else "LIBRARY", "algorithm": said.get("algorithm", -1),
                                 "workspace_bytes": said["workspace"], "heuristic_rank": -1})
        names = ("tile", "split_k", "reduction", "swizzle", "custom_option", "stages", "inner_shape", "cluster_shape")
        self.check_fields(cuda, dict(zip(names, chosen or [0] * 8, strict=True)))
        alignment = e2e.one(cuda, "alignment_bytes")
        self.assertEqual(alignment, self.alignment(said))

    def alignment(self, said):
        """The largest power of two up to 256 that divides every address and every distance, in bytes."""
        bytes_of = {"F64": 8, "F32": 4, "S32": 4, "F16": 2, "BF16": 2, "S8": 1, "F8_E4M3": 1, "C32": 8}
        numbers = [said["offset"], *(0x7fa000000000 + number * 65536 for number in said["data"])]
        sides = ((said["transposed"][0], said["m"], said["k"]), (said["transposed"][1], said["k"], said["n"]),
                 (0, said["m"], said["n"]))
        operands = zip(said["types"], said["leading"], said["orders"], sides, strict=True)
        for type_, leading, order, (turned, rows, columns) in operands:
            size = bytes_of[CUDA_TYPES[type_]]
            numbers.append(leading * size)
            if said["batch"] > 1:
                rows, columns = (columns, rows) if turned else (rows, columns)
                numbers.append(leading * (rows if order else columns) * size)
        powers = (256, 128, 64, 32, 16, 8, 4, 2, 1)
        return next(power for power in powers if all(number % power == 0 for number in numbers))

    def check_call(self, said, call):
        self.assertEqual(e2e.one(call.op, "function"), said["function"])
        self.assertEqual(call.status, said["status"])
        self.assertNotEqual(call.status, 0, "there is no device")
        expected = [0x7fa000000000 + number * 65536 if number else 0 for number in said["data"]] or [0, 0, 0]
        expected[0] += said.get("offset", 0)
        self.assertEqual(call.addresses, expected)
        if said["function"] != "cublasLtMatrixTransform":
            self.check_product(said, call)
            return
        matrix = e2e.one(call.op, "matrix")
        self.check_fields(matrix, {
            "kind": "TRANSFORM", "type": CUDA_TYPES[said["types"][0]], "c_type": CUDA_TYPES[said["types"][1]],
            "trans": TRANSPOSES[said["transposed"]], "trans_b": "", "m": said["m"], "n": said["n"], "batch": 1,
            "lda": said["leading"][0], "ldc": said["leading"][1], "order_a": said["orders"][0] + 1,
            "order_c": said["orders"][1] + 1})

    def test_products(self):
        for host in ("launcher", "writer"):
            pairs = self.said_and_recorded(
                host, lambda name: name.startswith(("cublasLtMatmul", "cublasLtMatrixTransform")) and
                not name.endswith(("Create", "Attribute")), "lt", genuine.cublaslt(), self.out)
            self.assertEqual(len(pairs), 31)
            for said, call in pairs:
                with self.subTest(host=host, function=said["function"], m=said["m"]):
                    self.check_call(said, call)


if __name__ == "__main__":
    e2e.main()
