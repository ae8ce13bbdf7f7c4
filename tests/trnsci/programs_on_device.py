"""Programs on the emulated device, where complex numbers are refused: run as a program, it reads cases from its
standard input and writes what they gave. A process has one such device for good.
"""

import json
import sys
import traceback

import torch

import trnsci


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
    trnsci.emulate("trn2")
    results = {}
    for code, mode in json.load(sys.stdin):
        try:
            results[code] = measured(code, mode)
        except Exception:  # noqa: BLE001
            results[code] = {"raised": traceback.format_exc()}
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
