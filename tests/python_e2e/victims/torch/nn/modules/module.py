"""Replaces torch/nn/modules/module.py for interpreters without torch: how a module is called and what it contains.

With VICTIM_TORCH=1 as in PyTorch before 2.1, where nothing wraps `_call_impl`.
"""

import os


class Module:
    def __init__(self):
        self._modules = {}

    def add(self, **modules):
        self._modules.update(modules)
        return self

    if os.environ.get("VICTIM_TORCH") == "1":
        def _call_impl(self, *args):
            return self.forward(*args)

        __call__ = _call_impl
    else:
        def _wrapped_call_impl(self, *args):
            return self._call_impl(*args)

        def _call_impl(self, *args):
            def inner():
                return self.forward(*args)  # makes a cell of `self`
            return inner()

        __call__ = _wrapped_call_impl
