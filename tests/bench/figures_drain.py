"""The cost of the drain per record, alone: drain_bench's samples."""

from runner import program, run, say
from stats import Estimate, Row


def drain(rounds):
    say(f"drain alone, {rounds} rounds")
    samples = run([program("drain_bench"), rounds])
    return [
        Row("drain alone: a matrix product (128 B record)", "ns CPU", Estimate(samples["gemm_ns"]), digits=1),
        Row("drain alone: a line of oneDNN's log", "ns CPU", Estimate(samples["line_ns"]), digits=1),
        Row("trace: a matrix product", "B a call", Estimate(samples["gemm_bytes"]), limit=32),
        Row("trace: a line of oneDNN's log", "B a call", Estimate(samples["line_bytes"]), limit=32),
    ]
