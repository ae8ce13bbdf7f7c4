"""Times one compiled program by the device's own clock: ``PYTHON device_clock.py PROGRAM ARRAYS`` prints JSON.

``nrtpy`` reads that clock, and shares no environment with AWS's ``nki``: nothing but it and NumPy is imported here.
"""

import json
import sys

import numpy as np

ITERATIONS = 20


def main(program: str, arrays: str) -> None:
    """Load a program, run it on these arrays in the order of its inputs, and print seconds."""
    import nrtpy  # type: ignore[import-not-found]

    model = nrtpy.NrtpyModel.load_from_neff(program)
    names = [str(getattr(each, "name", each)) for each in model.input_tensors_info]
    with np.load(arrays) as held:
        numbers = [held[name] for name in held.files]
    if len(names) != len(numbers):
        raise SystemExit(f"the program has the inputs {names}, and {len(numbers)} arrays were given")
    inputs = {name: nrtpy.NrtpyTensor.from_numpy(x, name=name) for name, x in zip(names, numbers, strict=True)}
    found = model.benchmark(inputs, warmup_iter=5, benchmark_iter=ITERATIONS, mode="device")
    milliseconds = {"mean_s": found.mean_ms, "least_s": found.min_ms, "most_s": found.max_ms}
    print(json.dumps({name: value / 1e3 for name, value in milliseconds.items()} | {"repeats": found.iterations}))


if __name__ == "__main__":
    main(*sys.argv[1:])
