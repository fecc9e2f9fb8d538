"""Stands for torch/nn/modules/module.py where there is no torch for an interpreter: how a module is called and what it contains."""


class Module:
    def __init__(self):
        self._modules = {}

    def add(self, **modules):
        self._modules.update(modules)
        return self

    def _wrapped_call_impl(self, *args):
        return self._call_impl(*args)

    def _call_impl(self, *args):
        def inner():
            return self.forward(*args)  # makes a cell of `self`
        return inner()

    __call__ = _wrapped_call_impl
