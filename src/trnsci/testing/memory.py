"""Peak memory of an implementation, compared with its plan."""

from typing import Any

import torch

from trnsci.backends import backend as using_backend
from trnsci.config import BackendName
from trnsci.kernel_launcher import Simulator, using
from trnsci.memory import MemoryMeter


def stated_and_used(kind: Any, backend: BackendName, *args: Any) -> tuple[int, int]:
    """Return the peak bytes a plan states for a call, and those alive at the worst moment of a run.

    Args:
        kind: the op's class; its implementation runs directly, so that everything it makes is seen.
        backend: ``pytorch`` or ``simulator``, whose results NumPy holds: they are counted as the plan states them.
        args: its arguments.
    """
    call = getattr(kind, "kind", kind)(*args)
    with using_backend(backend):
        plan = call._op.plan(call)
    given = [x for x in args if isinstance(x, torch.Tensor)]
    with torch.no_grad(), using(Simulator("trn2")), MemoryMeter(given) as meter:
        call.pytorch() if backend == "pytorch" else call.nki()
    return plan.peak_bytes, meter.peak + (plan.steps[0].cost.written if backend == "simulator" else 0)
