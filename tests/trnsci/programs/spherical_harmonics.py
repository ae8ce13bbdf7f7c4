"""A transform on the sphere, there and back, and its gradient, with torch-harmonics."""

import json

import torch
import torch_harmonics

torch.manual_seed(0)
forward = torch_harmonics.RealSHT(32, 64, grid="equiangular")
inverse = torch_harmonics.InverseRealSHT(32, 64, grid="equiangular")
x = torch.randn(3, 32, 64, requires_grad=True)
y = inverse(forward(x))
(y**2).sum().backward()
print(json.dumps([y.norm().item(), x.grad.norm().item(), y[0, 3, 5].item()]))
