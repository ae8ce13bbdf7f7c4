"""trnsci: scientific computing on AWS Trainium. The suite's runtime: backends, dispatch, plans, residency, errors.

| name | what it does |
|---|---|
| `backend`, `set_backend`, `get_backend` | choose where work runs, per block, per library, for all |
| `plan`, `explain`, `plans`, `clear_plans` | what a call would do, which backends take it, what is cached |
| `ledger` | record what ran, why, what moved, how long it took |
| `program`, `repeat`, `built_programs`, `clear_programs` | run a function of many calls as one program |
| `achieved` | a result with the error guaranteed where it was computed |
| `to_device`, `from_device`, `is_resident` | keep operands in device memory |
| `drop_in`, `compiled_graphs` | run the calls of another program here, and what ``torch.compile`` made of it |
| `register_operators` | give a Neuron device the operators of torch it lacks |
| `rosetta` | what takes the place of a CUDA library's symbol |
| `op`, `run`, `Call`, `Cost`, `check`, `array_function` | build a library on the runtime |
"""

from typing import TYPE_CHECKING

from trnsim.lazy import lazily

if TYPE_CHECKING:
    from trnsci import check, rosetta
    from trnsci.accuracy import Achieved, achieved
    from trnsci.arrays import array_function, merge_complex, split_complex
    from trnsci.backends import backend, get_backend, library_functions, set_backend
    from trnsci.compiler import compiled_graphs
    from trnsci.config import BackendName, TargetName
    from trnsci.device_operators import register_operators
    from trnsci.drop_in import drop_in
    from trnsci.emulation import emulate
    from trnsci.errors import (
        ArgumentError,
        BackendUnavailable,
        CapacityError,
        DtypeError,
        KernelError,
        NotConverged,
        NotPositiveDefinite,
        NumericalError,
        RankFailed,
        Singular,
        TrnError,
        UnsupportedError,
    )
    from trnsci.graph.program import Program, built_programs, clear_programs, program
    from trnsci.graph.program_plan import ProgramPlan
    from trnsci.graph.tracing import repeat
    from trnsci.ledger import Ledger, ledger
    from trnsci.neuron import from_device, from_xla, to_device, to_xla
    from trnsci.nki import HAS_NKI
    from trnsci.ops import Call, op, run
    from trnsci.planning import Explanation, explain, plan
    from trnsci.plans import Cost, Plan, Step, clear_plans, plans
    from trnsci.specs import is_resident

__version__ = "1.0.0.dev0"

__all__ = [
    "HAS_NKI",
    "Achieved",
    "ArgumentError",
    "BackendName",
    "BackendUnavailable",
    "Call",
    "CapacityError",
    "Cost",
    "DtypeError",
    "Explanation",
    "KernelError",
    "Ledger",
    "NotConverged",
    "NotPositiveDefinite",
    "NumericalError",
    "Plan",
    "Program",
    "ProgramPlan",
    "RankFailed",
    "Singular",
    "Step",
    "TargetName",
    "TrnError",
    "UnsupportedError",
    "achieved",
    "array_function",
    "backend",
    "built_programs",
    "check",
    "clear_plans",
    "clear_programs",
    "compiled_graphs",
    "drop_in",
    "emulate",
    "explain",
    "from_device",
    "from_xla",
    "get_backend",
    "is_resident",
    "ledger",
    "library_functions",
    "merge_complex",
    "op",
    "plan",
    "plans",
    "program",
    "register_operators",
    "repeat",
    "rosetta",
    "run",
    "set_backend",
    "split_complex",
    "to_device",
    "to_xla",
]

lazily(__name__)
