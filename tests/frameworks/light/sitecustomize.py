"""On PYTHONPATH of framework tests: PyTorch's optimizers import its compiler, which takes as long as everything else that
most of these programs do, and PyTorch itself what only the compiler, its exporter and tensors without values need: a third
of the rest. They come as soon as they are asked for anything but the two functions of the compiler that optimizers call."""

import importlib
import importlib.util
import sys
import types


class Later(types.ModuleType):
    """A module of PyTorch until it is needed."""

    def __getattr__(self, name):
        if name.startswith("__") and (name != "__path__" or self.__name__ not in sys.modules):
            raise AttributeError(name)
        return getattr(self.whole(), name)

    def whole(self):
        if LATER.pop(self.__name__, None):
            del sys.modules[self.__name__]
            parent, _, own = self.__name__.rpartition(".")
            setattr(sys.modules[parent], own, importlib.import_module(self.__name__))
        return sys.modules[self.__name__]


class Compiler(Later):
    def disable(self, fn=None, recursive=True, **options):
        if options == {"wrapping": False}:  # as PyTorch itself calls it
            return fn
        return self.whole().disable(fn, recursive, **options)

    def graph_break(self):
        pass

    def whole(self):
        for name in [name for name in LATER if name != self.__name__]:
            importlib.import_module(name).whole()
        return super().whole()


LATER = {"torch._dynamo": Compiler, "torch._meta_registrations": Later, "torch.export": Later}


class Finder:
    """Of the modules above, and their loader."""

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in LATER else None

    def create_module(self, spec):
        return LATER[spec.name](spec.name)

    def exec_module(self, module):
        if module.__name__ == "torch._meta_registrations":
            importlib.import_module("torch._prims.rng_prims")  # which this imports, and random numbers need


sys.meta_path.insert(0, Finder())
