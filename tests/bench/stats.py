"""Statistics for a few noisy numbers: medians, bootstrap intervals and verdicts. Standard library only."""

import random
import statistics

RESAMPLES = 4000


class Estimate:
    """The median of paired samples with its 95 % bootstrap interval."""

    def __init__(self, samples):
        self.samples = list(samples)
        self.value = statistics.median(self.samples)
        self.low, self.high = _median_interval(self.samples)

    def plus(self, constant):
        """The same samples, each with a constant added."""
        return Estimate([sample + constant for sample in self.samples])


def _median_interval(samples):
    if len(samples) < 6:  # too few for a 95 % interval of the median: use their range
        return min(samples), max(samples)
    chance = random.Random(len(samples))  # the same result for the same numbers
    medians = sorted(statistics.median(chance.choices(samples, k=len(samples))) for _ in range(RESAMPLES))
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


class Row:
    """A line of the table. `limit` None: for information. `at_least`: the limit is a minimum."""

    def __init__(self, name, unit, estimate, limit=None, at_least=False, note="", digits=2, problem=""):
        self.name = name
        self.unit = unit
        self.estimate = estimate
        self.limit = limit
        self.at_least = at_least
        self.note = note
        self.digits = digits
        self.problem = problem  # the reason why the measurement is invalid

    def verdict(self):
        if self.problem:
            return "INVALID: " + self.problem
        if self.limit is None:
            return "-"
        low, high = self.estimate.low, self.estimate.high
        if self.at_least:
            return "pass" if low >= self.limit else "FAIL" if high < self.limit else "undecided"
        return "pass" if high <= self.limit else "FAIL" if low > self.limit else "undecided"

    def cells(self):
        digits = self.digits
        e = self.estimate
        sign = ">=" if self.at_least else "<="
        limit = "" if self.limit is None else f"{sign} {self.limit:g}"
        measured = f"{e.value:.{digits}f} [{e.low:.{digits}f}..{e.high:.{digits}f}]"
        return [self.name, self.unit, limit, measured, str(len(e.samples)), self.verdict(), self.note]


HEADINGS = ["figure", "unit", "limit", "median [95 % interval]", "n", "verdict", "note"]


def markdown(rows):
    """The rows as a Markdown table with aligned columns."""
    lines = [HEADINGS] + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADINGS))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)
