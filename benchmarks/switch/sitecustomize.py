"""Lets benchmarks/sdk.py switch the SDK's hook on (SIGUSR1) and off (SIGUSR2) in a script that knows nothing of it."""

import signal
import sys

_removed_hooks = {}


def _switch(number, _frame):
    optimizer = sys.modules["torch.optim.optimizer"]
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        table = getattr(optimizer, name)
        if number == signal.SIGUSR2:
            _removed_hooks.setdefault(name, dict(table))
            table.clear()
        elif name in _removed_hooks:
            table.update(_removed_hooks[name])


signal.signal(signal.SIGUSR1, _switch)
signal.signal(signal.SIGUSR2, _switch)
