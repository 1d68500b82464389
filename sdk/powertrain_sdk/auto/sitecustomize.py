"""Makes every Python of the container count optimizer steps once it imports PyTorch, and runs the next sitecustomize.

This directory comes first in PYTHONPATH, so Python finds this file where it would have found another: a
distribution's, a debugger's, the user's own. That one runs afterwards as if this file did not exist. Most Pythons of a
container train nothing: all they pay for is this file and one comparison per import.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - the types are comments because Python 2 reads this file, too

SDK = "powertrain_sdk"
OPTIMIZER = "torch.optim.optimizer"


class _Finder(object):
    """Stands first among the import finders and minds two modules: the SDK, and where PyTorch's optimizers are."""

    def __init__(self, package_parent):  # type: (str) -> None
        self._package_parent = package_parent

    def find_spec(self, name, path=None, target=None):  # type: (str, Any, Any) -> Any
        if name == SDK:
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(name, [self._package_parent])
        if name != OPTIMIZER:
            return None
        for finder in [each for each in sys.meta_path if each is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader(object):
    """Loads a module with its own loader, then makes its optimizers count."""

    def __init__(self, loader):  # type: (Any) -> None
        self._loader = loader

    def __getattr__(self, name):  # type: (str) -> Any
        return getattr(self._loader, name)

    def create_module(self, spec):  # type: (Any) -> Any
        return self._loader.create_module(spec)

    def exec_module(self, module):  # type: (Any) -> None
        # Whoever asks the module for its loader finds the one it would have without us.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            from powertrain_sdk.torch_hook import attach

            attach(module)
        except Exception as error:
            # A training that is not counted is still a training.
            sys.stderr.write("powertrain: the steps of this PyTorch are not counted (%r)\n" % (error,))


def _run_next(own_directory):  # type: (str) -> None
    from importlib.machinery import PathFinder

    # Two copies of this file on one path must not call each other for ever.
    started_files = sys.__dict__.setdefault("_powertrain_sitecustomize", set())
    started_files.add(own_directory)
    others = [entry for entry in sys.path if os.path.realpath(entry or ".") not in started_files]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _main(own_directory):  # type: (str) -> None
    if "_powertrain_sitecustomize" not in sys.__dict__:
        sys.meta_path.insert(0, _Finder(os.path.dirname(os.path.dirname(own_directory))))
    _run_next(own_directory)


# PYTHONPATH reaches the Python 2 tools of older images as well; nothing is counted there.
if sys.version_info >= (3, 6):
    _main(os.path.dirname(os.path.realpath(__file__)))
