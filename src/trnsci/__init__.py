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
    from trnsci import check as check, rosetta as rosetta
    from trnsci.accuracy import Achieved as Achieved, achieved as achieved
    from trnsci.arrays import (
        array_function as array_function,
        merge_complex as merge_complex,
        split_complex as split_complex,
    )
    from trnsci.backends import (
        backend as backend,
        get_backend as get_backend,
        library_functions as library_functions,
        set_backend as set_backend,
    )
    from trnsci.compiler import compiled_graphs as compiled_graphs
    from trnsci.config import BackendName as BackendName, TargetName as TargetName
    from trnsci.device_operators import register_operators as register_operators
    from trnsci.drop_in import drop_in as drop_in
    from trnsci.emulation import emulate as emulate
    from trnsci.errors import (
        ArgumentError as ArgumentError,
        BackendUnavailable as BackendUnavailable,
        CapacityError as CapacityError,
        DtypeError as DtypeError,
        KernelError as KernelError,
        NotConverged as NotConverged,
        NotPositiveDefinite as NotPositiveDefinite,
        NumericalError as NumericalError,
        RankFailed as RankFailed,
        Singular as Singular,
        TrnError as TrnError,
        UnsupportedError as UnsupportedError,
    )
    from trnsci.graph.program import (
        Program as Program,
        built_programs as built_programs,
        clear_programs as clear_programs,
        program as program,
    )
    from trnsci.graph.program_plan import ProgramPlan as ProgramPlan
    from trnsci.graph.tracing import repeat as repeat
    from trnsci.ledger import Ledger as Ledger, ledger as ledger
    from trnsci.neuron import from_device as from_device, from_xla as from_xla, to_device as to_device, to_xla as to_xla
    from trnsci.nki import HAS_NKI as HAS_NKI
    from trnsci.ops import Call as Call, op as op, run as run
    from trnsci.planning import Explanation as Explanation, explain as explain, plan as plan
    from trnsci.plans import Cost as Cost, Plan as Plan, Step as Step, clear_plans as clear_plans, plans as plans
    from trnsci.specs import is_resident as is_resident

__version__ = "1.0.0.dev0"

lazily(__name__)
