"""The additions of dlhook and its peers to a PyTorch training. A round is one process under dlhook
(torch_scope_steps.py) and one without, in which the peers alternate (torch_peer_steps.py); a tool's addition is taken
within its process, ratios within a round."""

import os
import random
import statistics
import tempfile

from runner import DLHOOK, TORCH_PYTHON, RunFolder, run, say
from stats import Estimate, Row

HERE = os.path.dirname(os.path.abspath(__file__))
BLOCK = 10  # steps of a window
SHAPES, STACKS = "torch.profiler (shapes)", "torch.profiler (shapes, stacks)"
# Pairs of a mode of dlhook and a peer, and the limit of the ratio of their additions.
PAIRS = [("calls", "verbose", 1), ("calls", SHAPES, 0.1), ("all", SHAPES, 0.1), ("all", STACKS, 0.1),
         ("all", f"{STACKS}, inside", None), ("all", "torch.profiler", None), ("all", "cProfile", None)]
NAMES = {"calls": "dlhook, calls alone", "all": "dlhook, scopes, stacks, modules",
         "verbose": "ONEDNN_VERBOSE to a file"}
PEERS = ["verbose", "cProfile",
         *(f"{name}{part}" for name in ("torch.profiler", SHAPES, STACKS) for part in (", inside", "", ", written"))]
WALL, CPU = 0, 1


def _median_us(block_ns):
    """Per step."""
    return statistics.median(block_ns) / BLOCK / 1000


class Rounds:
    """us of CPU time per step that each tool adds, by round; "launcher": including that of dlhook's launcher."""

    def __init__(self):
        self.added = {}
        self.base = []
        self.problem = ""

    def round(self, groups):
        for part in random.sample([self._dlhook, self._peers], 2):
            part(groups)

    def _note(self, name, microseconds):
        self.added.setdefault(name, []).append(microseconds)

    def _note_added(self, name, pairs):
        """`pairs`: a block's (wall, CPU) with the tool and without."""
        self._note(name, _median_us(with_it[CPU] - without[CPU] for with_it, without in pairs))
        self._note(f"{name}, wall", _median_us(with_it[WALL] - without[WALL] for with_it, without in pairs))

    def _dlhook(self, groups):
        command = [TORCH_PYTHON, os.path.join(HERE, "torch_scope_steps.py"), "small_lenet", 3 * groups, BLOCK, 1]
        with RunFolder() as folder:
            result = run([DLHOOK, "run", "-o", folder.path, "--", *command])
            recorded, lost = folder.counts()
        if lost != 0 or recorded == 0:
            self.problem = f"{recorded} calls recorded, {lost} lost"
        by_group = {}
        for group, kind, wall, cpu, _, _ in result["blocks"]:
            by_group.setdefault(group, {})[kind] = (wall, cpu)
        step_us = _median_us(modes["off"][WALL] for modes in by_group.values())
        launcher_us = statistics.median(result["launcher_shares"]) * step_us
        for kind in ("calls", "all"):
            self._note_added(kind, [(modes[kind], modes["off"]) for modes in by_group.values()])
            self._note(f"{kind}, launcher", self.added[kind][-1] + launcher_us)

    def _peers(self, groups):
        command = [TORCH_PYTHON, os.path.join(HERE, "torch_peer_steps.py"), groups, BLOCK]
        with tempfile.TemporaryDirectory(prefix="dlhook-bench-") as folder:
            log = os.path.join(folder, "log.txt")
            result = run(command, output=log)
            with open(log, encoding="utf-8", errors="replace") as file:
                lines = sum(line.startswith("onednn_verbose,") and ",exec," in line for line in file)
        if lines == 0 or lines % result["logged_steps"] != 0:
            self.problem = f"{lines} lines of oneDNN for {result['logged_steps']} steps"
        collected = result["groups"]
        self.base.append(_median_us(group["off"][CPU] for group in collected))
        for name in PEERS:
            self._note_added(name, [(group[name], group["off"]) for group in collected if name in group])

    def rows(self):
        title = "small LeNet, a step"
        rows = [Row(f"{title}: alone", "us CPU", Estimate(self.base), digits=0)]
        for name in ["calls", "all", *PEERS]:
            rows.append(Row(f"{title}, added: {NAMES.get(name, name)}", "us CPU", Estimate(self.added[name]), digits=0,
                            problem=self.problem, note=self._remark(name)))
        for ours, theirs, limit in PAIRS:
            name = f"{NAMES[ours]} / {NAMES.get(theirs, theirs)}"
            rows.append(self._ratio(ours, theirs, limit, name))
            if limit is not None:
                rows.append(self._ratio(f"{ours}, launcher", theirs, None, f"{name}, launcher included"))
        return rows

    def _remark(self, name):
        note = f"wall {statistics.median(self.added[name + ', wall']):.0f}"
        launcher = f"{name}, launcher"
        if launcher in self.added:
            note += f", with the launcher {statistics.median(self.added[launcher]):.0f}"
        return note

    def _ratio(self, ours, theirs, limit, name):
        ratios = [mine / peer for mine, peer in zip(self.added[ours], self.added[theirs])]
        in_noise = min(self.added[theirs]) <= 0 or statistics.median(self.added[ours]) <= 0
        problem = self.problem or ("what is added is lost in the noise" if in_noise else "")
        return Row(f"added: {name}", "ratio", Estimate(ratios), limit, digits=3, problem=problem)


def torch(rounds, groups=16):
    series = Rounds()
    for i in range(rounds):
        say(f"peers: a PyTorch training, round {i + 1} of {rounds}")
        series.round(groups)
    return series.rows()
