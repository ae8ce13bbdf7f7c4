"""Programs as users of TorchNeuron write them; each prints one line of JSON. None knows of trnsci."""

import json
import sys

import torch
from torch import nn


def network():
    """Train a small convolutional network under autocast, and once compiled."""
    torch.manual_seed(0)
    images, labels = torch.randn(16, 1, 8, 8), torch.randint(0, 10, (16,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model.append(nn.Linear(64, 10))
    model = model.to("neuron")
    step = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(6):
        with torch.autocast("neuron", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(images.to("neuron")), labels.to("neuron"))
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    compiled = torch.compile(model.eval(), backend="neuron", dynamic=False, fullgraph=True)
    with torch.no_grad():
        same = torch.allclose(compiled(images.to("neuron")).cpu(), model(images.to("neuron")).cpu())
    torch.accelerator.synchronize()
    return {"falls": losses[-1] < 0.7 * losses[0], "compiled": same, "on": str(next(model.parameters()).device.type)}


def process():
    """Fit a Gaussian process by its likelihood."""
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 40).to("neuron")[:, None]
    y = torch.sin(6 * x[:, 0])
    scale = torch.tensor(0.0, device="neuron", requires_grad=True)
    likelihoods = []
    for _ in range(5):
        covariance = torch.exp(-((x - x.T) ** 2) / (2 * torch.exp(scale) ** 2)) + 0.1 * torch.eye(40, device="neuron")
        factor = torch.linalg.cholesky(covariance)
        alpha = torch.cholesky_solve(y[:, None], factor)
        loss = 0.5 * (y[:, None] * alpha).sum() + factor.diagonal().log().sum()
        (slope,) = torch.autograd.grad(loss, scale)
        scale = (scale - 0.02 * slope).detach().requires_grad_()
        likelihoods.append(loss.item())
    return {"falls": likelihoods[-1] < likelihoods[0], "last": likelihoods[-1]}


class SpectralLayer(nn.Module):
    """A Fourier layer: the lowest modes are mixed, the rest is dropped."""

    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.real = nn.Parameter(0.1 * torch.randn(width, width, modes))
        self.imag = nn.Parameter(0.1 * torch.randn(width, width, modes))
        self.skip = nn.Linear(width, width)

    def forward(self, x):
        spectrum = torch.fft.rfft(x, dim=1)[:, : self.modes]
        mixed = torch.einsum("bmi,iom->bmo", spectrum, torch.complex(self.real, self.imag))
        return torch.relu(torch.fft.irfft(mixed, n=x.shape[1], dim=1) + self.skip(x))


def operator():
    """Train a Fourier neural operator to smooth functions."""
    torch.manual_seed(0)
    x = torch.randn(4, 32, 1)
    y = torch.fft.irfft(torch.fft.rfft(x, dim=1)[:, :5], n=32, dim=1)
    x, y = x.to("neuron"), y.to("neuron")
    model = nn.Sequential(nn.Linear(1, 6), SpectralLayer(6, 5), nn.Linear(6, 1)).to("neuron")
    step = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    for _ in range(6):
        loss = (model(x) - y).square().mean()
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return {"falls": losses[-1] < 0.8 * losses[0], "last": losses[-1]}


def limits():
    """Meet what the device does not have."""
    met = {}
    met["double"] = float((torch.full((3,), 1 / 3, dtype=torch.float64, device="neuron") * 3).cpu()[0])
    met["wraps"] = int((torch.tensor([2**31 - 1], device="neuron") + 1).cpu()[0])
    for name, program in (
        ("complex", lambda: torch.ones(2, dtype=torch.complex64, device="neuron")),
        ("layout", lambda: torch.ones(1, 2, 3, 4, device="neuron").contiguous(memory_format=torch.channels_last)),
        ("memory", lambda: torch.empty(2**33, dtype=torch.float32, device="neuron")),
        ("dynamic", lambda: torch.compile(lambda x: x * 2, backend="neuron", dynamic=True)(torch.ones(3).to("neuron"))),
    ):
        try:
            program()
            met[name] = "went through"
        except Exception as error:  # noqa: BLE001
            met[name] = f"{type(error).__name__}: {str(error)[:200]}"
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    start.record()
    torch.ones(300, 300, device="neuron").sum()
    end.record()
    met["elapsed"] = start.elapsed_time(end)
    met["peak"] = torch.neuron.max_memory_allocated()
    return met


if __name__ == "__main__":
    print(json.dumps({"network": network, "process": process, "operator": operator, "limits": limits}[sys.argv[1]]()))
