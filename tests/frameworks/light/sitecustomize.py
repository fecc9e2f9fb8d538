"""On PYTHONPATH of framework tests: PyTorch's optimizers import its compiler, which takes as long as everything else
that most of these programs do. It comes as soon as anything but the two functions that optimizers call is asked for."""

import importlib
import sys
import types


class Compiler(types.ModuleType):
    """torch._dynamo until it is needed."""

    def disable(self, fn=None, recursive=True, **options):
        if options == {"wrapping": False}:  # as PyTorch itself calls it
            return fn
        return self.whole().disable(fn, recursive, **options)

    def graph_break(self):
        pass

    def __getattr__(self, name):
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        return getattr(self.whole(), name)

    def whole(self):
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
            sys.modules["torch"]._dynamo = importlib.import_module(self.__name__)
        return sys.modules[self.__name__]


sys.modules["torch._dynamo"] = Compiler("torch._dynamo")
