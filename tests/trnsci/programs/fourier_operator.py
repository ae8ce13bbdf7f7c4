"""Three steps of training a Fourier neural operator, with neuraloperator."""

import json

import torch
from neuralop.models import FNO

torch.manual_seed(0)
model = FNO(n_modes=(8, 8), in_channels=1, out_channels=1, hidden_channels=16, n_layers=2)
x = torch.randn(2, 1, 32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
