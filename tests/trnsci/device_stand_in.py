"""A device ``neuron`` of torch's own making, on the host: tensors of it are opaque, and complex numbers are refused.

As Neuron does, it is torch's ``PrivateUse1`` under another name, with every operator at its dispatch key. A process has
one such device for good, so tests import this in processes of their own: run as a program, it reads cases from its
standard input and writes what they gave.
"""

import functools
import json
import sys
import traceback

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import trnsci
from trnsci import neuron
from trnsci.specs import map_tensors

# data by the tensors' storage, which copies torch makes of a tensor share; a view's data is a view
_DATA = {}


def data(x):
    return _DATA[x.untyped_storage()._cdata] if x.device.type == "neuron" else x


def opaque(x):
    if x.is_complex():
        raise RuntimeError("[NCC_EVRF004] Complex data types are not supported on the Neuron device.")
    made = torch._C._acc.create_empty_tensor(tuple(x.shape), x.dtype)
    _DATA[made.untyped_storage()._cdata] = x
    return made


def computed(op, *args, **kwargs):
    """Any operator, on the data behind its operands."""
    schema = op._schema.arguments
    args = [
        torch.tensor(x) if isinstance(x, int | float) and str(s.type) == "Tensor" else x
        for x, s in zip(args, schema, strict=False)
    ]

    def host(x):
        if isinstance(x, torch.Tensor):
            return data(x)
        return torch.device("cpu") if isinstance(x, torch.device) else x

    if op._schema.name in ("aten::view", "aten::_unsafe_view"):
        # opaque tensors call themselves contiguous, whatever their data is
        op = torch.ops.aten.reshape.default
    out = op(*map(functools.partial(tree_map, host), args), **tree_map(host, kwargs))
    named = dict(zip((s.name for s in schema), args, strict=False)) | kwargs
    written = [named[s.name] for s in schema if s.alias_info and s.alias_info.is_write and s.name in named]
    for x in written:
        if x.device.type == "neuron" and data(x).shape != x.shape:
            x.data = opaque(data(x))
    if written:
        return written[0] if isinstance(out, torch.Tensor) else tuple(written)
    return tree_map(lambda x: opaque(x) if isinstance(x, torch.Tensor) else x, out)


def copied(source, target, non_blocking=False):
    data(target).copy_(data(source))
    return target


def register():
    _setup_privateuseone_for_python_backend("neuron")
    everything = torch.library.Library("_", "IMPL", "PrivateUse1")
    everything.fallback(computed)
    own = torch.library.Library("aten", "IMPL", "PrivateUse1")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        explicit = has(name, "CompositeExplicitAutograd") or has(name, "CompositeExplicitAutogradNonFunctional")
        memory = packet in ("empty", "empty_strided") and overload in ("memory_format", "")
        if not name.startswith("aten::") or not (explicit or memory) or has(name, "CompositeImplicitAutograd"):
            continue
        if packet not in ("_to_copy", "copy_", "_copy_from", "detach", "alias"):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            own.impl(name.removeprefix("aten::"), functools.partial(computed, op))
    own.impl("_copy_from", copied)
    return everything, own


class Native(neuron.StandIn):
    """The suite's view of it: kernels run on the simulator."""

    kind = "neuron"

    def put(self, tensor):
        return tensor.to("neuron")

    def fetch(self, tensor):
        return tensor.cpu()

    def run(self, kernel, *args, **static):
        return map_tensors(kernel(*map_tensors(args, lambda t: data(t.detach())), **static), opaque)


def block(x, w):
    """A layer of a Fourier neural operator with complex weights, as its library writes it."""
    spectrum = torch.fft.rfft2(x)
    kept = torch.zeros(spectrum.shape, dtype=torch.cfloat, device=x.device)
    kept[..., :3, :3] = torch.einsum("bixy,ioxy->boxy", spectrum[..., :3, :3], w)
    return torch.fft.irfft2(kept, s=x.shape[-2:]).relu() + spectrum.abs().mean()


def changed(z):
    """Methods in place and assignments, of real numbers too."""
    y = z.clone()
    y.mul_(2)
    y += z * 1j
    y[1] = 5
    y[:, :2] = z[:, 2:4].real
    return y.div_(1 + 2j).neg_()


def neural_operator(x):
    """A model of neuraloperator, unmodified, moved to the operand's device."""
    from neuralop.models import FNO

    torch.manual_seed(0)
    model = FNO(n_modes=(4, 4), in_channels=3, out_channels=1, hidden_channels=8, n_layers=2)
    return model.to(x.device)(x)


def measured(code, mode):
    """Errors of a case's value and gradients, relative to the plain run, and what was recorded."""
    torch.manual_seed(1)
    scope = {"torch": torch, "block": block, "changed": changed, "neural_operator": neural_operator}
    operands = {
        "a": torch.randn(6, 6) + 6 * torch.eye(6),
        "b": torch.randn(6, 4),
        "x": torch.randn(2, 3, 8, 8),
        "w": torch.randn(3, 3, 3, 3, dtype=torch.cfloat),
        "z": torch.randn(5, 6, dtype=torch.cfloat),
    }
    used = [name for name in operands if name in eval(f"lambda: {code}").__code__.co_names]

    def run(where):
        leaves = {name: operands[name].clone().requires_grad_() for name in used}
        value = eval(code, scope | {name: leaf.to(where) for name, leaf in leaves.items()})
        device = value.device.type
        value = value.cpu()
        loss = value.abs().square().sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return device, [value.detach(), *gradients]

    _, want = run("cpu")
    with trnsci.ledger() as book:
        if mode:
            with trnsci.drop_in():
                device, got = run("neuron")
        else:
            device, got = run("neuron")
    errors = [float((g - w).abs().max() / w.abs().max().clamp(min=1e-30)) for g, w in zip(got, want, strict=True)]
    kernels = sorted({entry.step.op for entry in book if entry.step.backend == "nki"})
    return {
        "device": device,
        "error": max(errors),
        "kernels": kernels,
        "hosted": sorted({s.theirs for s in book.substitutions if not s.ours}),
    }


def main():
    libraries = register()
    results = {}
    with neuron.stand_in(Native()):
        trnsci.register_operators()
        for code, mode in json.load(sys.stdin):
            try:
                results[code] = measured(code, mode)
            except Exception:  # noqa: BLE001
                results[code] = {"raised": traceback.format_exc()}
    json.dump(results, sys.stdout)
    return libraries


if __name__ == "__main__":
    main()
