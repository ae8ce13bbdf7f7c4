"""SciPy's BLAS in double precision as the oracle, and the bound of a sum of products."""

import numpy as np
import torch
from scipy.linalg import blas

from trnsci.testing import BACKENDS, gamma

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128
KERNELS = [backend for backend in BACKENDS if backend.runs_kernels]


def double(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(C128 if value.is_complex() else F64).resolve_conj().numpy()


def scipy_blas(name, *args, complex_valued=False, **options):
    """``d<name>`` or ``z<name>`` on the operands widened to double precision."""
    run = getattr(blas, ("z" if complex_valued else "d") + name)
    made = run(*map(double, args), **{key: double(value) for key, value in options.items()})
    return torch.from_numpy(np.array(made))


def gradient_bound(loss, operands, terms):
    """Bounds for the gradients of a polynomial ``loss`` in fp32, ``terms`` roundings on the longest way to them.

    They are ``g(terms)`` of the gradients at absolute values, where nothing cancels; complex numbers count twice.
    """
    sizes = [x.detach().abs().double().requires_grad_() for x in operands]
    loss(*sizes).backward()
    factor = 2 * gamma(2 * terms, F32) if any(x.is_complex() for x in operands) else gamma(terms, F32)
    return [factor * size.grad + torch.finfo(F32).smallest_normal for size in sizes]


def rounded_once(expected, size, terms):
    """A result in fp32 of a sum in double precision."""
    return 2.0**-24 * expected.abs() + 2 * gamma(terms, F64) * size + torch.finfo(F32).smallest_normal


def sum_bound(terms, magnitude, dtype):
    """A sum of ``terms`` products and two more roundings, in ``dtype``; complex numbers count twice."""
    wide, factor = (2 * terms + 1, 2**0.5) if dtype.is_complex else (terms, 1.0)
    return gamma(wide + 3, dtype) * factor * magnitude.abs() + torch.finfo(dtype).smallest_normal
