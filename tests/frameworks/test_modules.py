"""The modules around every Linear, with their names, equal those of torch's own named_modules() and global hooks:
residual blocks, containers, a shared layer, checkpointing, a model replaced half-way, one that grows, short-lived
models, threads."""

import collections
import json
import os
import sys

import frameworks
from frameworks import e2e

sys.path.insert(0, os.path.join(frameworks.HERE, "..", "python_e2e"))
import stacks  # pylint: disable=wrong-import-position


def witness(path):
    """{thread id: [chain of each Linear]}, a chain being ((names, type), …), innermost first."""
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            tid, chain = json.loads(line)
            found[tid].append(tuple((tuple(names), type_name) for names, type_name in chain))
    return found


class Modules(frameworks.Case):
    def test_chains(self):
        path = os.path.join(self.folder, "witness")
        run = self.recorded("writer", frameworks.program("modules", path))
        (trace,) = stacks.traces(run)
        expected = witness(path)
        self.assert_no_loss(trace)
        seen = collections.defaultdict(list)
        for thread, _, name, stack in sorted(trace.scopes, key=lambda scope: scope[1]):
            if name == "aten::linear":
                chain = tuple((tuple(trace.names(m)), trace.type(m)) for m in trace.modules_of(stack))
                seen[trace.tid(thread)].append(chain)
        self.assertEqual({tid: len(chains) for tid, chains in seen.items()},
                         {tid: len(chains) for tid, chains in expected.items()})
        wrong = [(chain, place) for tid, chains in expected.items() for place, chain in zip(seen[tid], chains) if place != chain]
        self.assertEqual(wrong[:3], [], f"{len(wrong)} wrong of {sum(map(len, expected.values()))}")

    def test_called_by_a_method(self):
        """Parts that a method of their owner calls have the names of its attributes, and are networks of their own."""
        run = self.recorded("launcher", frameworks.program("called_by_method"))
        found = {(row["layer"], row["model"]) for row in run.table("layers") if row["type"] == "linear"}
        self.assertEqual(found, {("encoder.0", "Autoencoder.encoder"), ("encoder.2", "Autoencoder.encoder"),
                                 ("decoder.0", "Autoencoder.decoder"), ("decoder.2", "Autoencoder.decoder"),
                                 ("head", "Autoencoder.head"), ("0", "Sequential")})  # fmt: skip

    def linears(self, kind):
        """The run, and its linear layers with their model."""
        run = self.recorded("launcher", frameworks.program("called_directly", kind))
        return run, {(row["layer"], row["model"]) for row in run.table("layers") if row["type"] == "linear"}

    def test_forward_is_called_itself(self):
        run, found = self.linears("forward")
        self.assertEqual({layer for layer, _ in found}, {f"layers.{i}" for i in range(12)})
        self.assertEqual([(row["kind"], row["batch"]) for row in run.table("steps")], [("inference", 4)] * 20)

    def test_networks_in_a_plain_list(self):
        run, found = self.linears("list")
        self.assertEqual({layer for layer, _ in found}, {"Sequential.0", "Sequential.2", "own"} |
                         {f"{net}.layers.{i}" for net in ("Net", "Net #2") for i in range(12)} - {"Net.layers.0"})
        self.assertEqual([row["kind"] for row in run.table("steps")], ["inference"] * 20)

    def test_the_host_is_unharmed(self):
        path = os.path.join(self.folder, "witness")
        plain = e2e.run(frameworks.program("modules", path), env=e2e.clean_environment(), cwd=self.folder)
        other = self.under("writer", frameworks.program("modules", path))
        self.assert_same_behaviour(plain, other, "writer")


if __name__ == "__main__":
    e2e.main()
