"""Call the sample of every public function with tensors of the device ``neuron``, and compare with the host's result.

``python functions_on_device.py LIBRARY...`` prints lines of JSON: name, backend, and the difference or what was raised.
"""

import json
import sys
import warnings

import torch

import trnsci
import trnsparse
from tests.samples import rows, sample
from trnsci.specs import map_tensors, tensors_in

# vectors of either sign are right
EITHER_SIGN = ("eigh", "null_space", "orth", "qr", "qr_pivoted", "svd")


def moved(value):
    """Return tensors, and sparse matrices, on the device."""
    if isinstance(value, trnsparse.CSRMatrix):
        return value.to("neuron")
    return tuple(map(moved, value)) if type(value) is tuple else map_tensors(value, lambda x: x.to("neuron"))


def planes(value):
    """Return the numbers of a result on the host, whatever carries them."""
    for x in tensors_in(value if isinstance(value, (tuple, list)) else (value,)):
        yield torch.view_as_real(x.cpu().resolve_conj()) if x.is_complex() else x.cpu().double()


def difference(got, want, signs):
    worst = 0.0
    for a, b in zip(planes(got), planes(want), strict=False):
        a, b = (a, b) if signs else (a.abs(), b.abs())
        scale = float(b.abs().nan_to_num(0.0).max()) if b.numel() else 0.0
        worst = max(worst, float((a - b).abs().nan_to_num(0.0).max()) / (scale or 1.0) if a.numel() else 0.0)
    return worst


def main(libraries):
    warnings.simplefilter("ignore")
    for name in rows():
        if name.partition(".")[0] not in libraries or name.startswith("trnrand"):
            continue
        # integers and eight bits, which the device computes otherwise; minutes of simulated iterations
        if name in ("trnblas.gemm_scaled", "trnblas.gemm_int", "trnsolver.lobpcg"):
            continue
        function, args, named = sample(name)
        tensors = list(tensors_in((tuple(args), tuple(named.values()))))
        if not tensors or any(x.is_complex() for x in tensors):
            continue
        try:
            want = function(*args, **named)
        except trnsci.TrnError:
            # the sample's numbers are none that it takes
            continue
        for backend in ("auto", "nki"):
            try:
                with trnsci.backend(backend, strict=False):
                    got = function(*moved(tuple(args)), **{key: moved(value) for key, value in named.items()})
                told = difference(got, want, name.partition(".")[2] not in EITHER_SIGN)
            except trnsci.TrnError as error:
                told = f"typed {type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001
                told = f"{type(error).__name__}: {str(error)[:200]}"
            print(json.dumps([name, backend, told]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
