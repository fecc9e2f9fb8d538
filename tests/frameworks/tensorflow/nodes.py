"""Shared by the tests of TensorFlow and JAX: their Python, and a trace with the events of TensorFlow's profiler."""

import collections
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Appended: this folder's parent has a folder `tensorflow`.
sys.path.append(os.path.join(HERE, ".."))
import frameworks  # pylint: disable=wrong-import-position
import scopes  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

PYTHON = frameworks.TENSORFLOW_PYTHON
MISSING = "no virtual environment with TensorFlow and JAX: run scripts/setup.sh --frameworks"

# TensorFlow's own rule for a node of a graph: one colon between the node's name and its kernel's type.
NODE = re.compile(r"[A-Za-z0-9_./>\\-]+:\w+")
Event = collections.namedtuple("Event", "thread name start_ns duration_ns")


def program(name, *arguments):
    return [PYTHON, "-B", os.path.join(HERE, "programs", name + ".py"), *map(str, arguments)]


def is_node(name):
    return NODE.fullmatch(name) is not None


def layer_of(node):
    """(layer, is gradient) of a node of the model `alexnet`; Keras numbers the scopes of layers: conv1 -> conv1_1."""
    match = re.search(r"(gradient_tape/)?alexnet_\d+/([a-z0-9]+?)(_\d+)?/", node)
    return (match[2], match[1] is not None) if match and not node.startswith("_send_") else None


class Case(e2e.Case):
    def setUp(self):
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(MISSING)
        super().setUp()

    def scopes_of(self, argv, host="launcher", **extra):
        return scopes.trace(self.recorded(host, argv, **extra))

    def events(self, path):
        """The events that the program found in the output of TensorFlow's profiler."""
        with open(path, encoding="utf-8") as file:
            return [Event(*event) for event in json.load(file)]


def recorded_events(trace):
    """The scopes of a trace as events. Durations are exact: converted with the rate by which the shim turned
    nanoseconds into ticks."""
    ns_per_tick = 1e9 / e2e.one(e2e.one(trace.header, "clock"), "ticks_per_second")
    for scope in trace.scopes:
        yield Event(scope.thread, scope.name, scope.start * ns_per_tick, (scope.end - scope.start) * ns_per_tick)
