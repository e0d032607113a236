"""Stands for SGLang's compiled kernels, of which there is no build for a CPU to be had: names can be imported, and
calling one raises. Its layers compute with PyTorch's operators where there are none."""

import importlib.abc
import importlib.machinery
import sys
import types

__path__ = []


class Missing:
    def __init__(self, name):
        self.name = name

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{self.name} is not there")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.name}.{name}")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(name)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = __getattr__
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())
