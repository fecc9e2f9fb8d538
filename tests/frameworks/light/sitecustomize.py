"""On PYTHONPATH of framework tests: PyTorch's optimizers import its compiler, which takes as long as everything else
that most of these programs do. It comes as soon as anything but the two functions that optimizers call is asked for."""

import importlib
import sys
import types


class Compiler(types.ModuleType):
    """torch._dynamo until it is needed."""

    @staticmethod
    def disable(fn, recursive=True, *, wrapping=True):
        del recursive, wrapping
        return fn

    @staticmethod
    def graph_break():
        pass

    def __getattr__(self, name):
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
            sys.modules["torch"]._dynamo = importlib.import_module(self.__name__)
        return getattr(sys.modules[self.__name__], name)


sys.modules["torch._dynamo"] = Compiler("torch._dynamo")
