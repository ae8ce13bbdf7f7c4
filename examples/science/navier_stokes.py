"""Step the two-dimensional Navier-Stokes equations in Fourier space.

Vorticity w obeys w_t + u . grad w = nu laplace w. Derivatives are products in Fourier space, the advection term is
formed in real space, and viscosity is integrated exactly. The flow is a Taylor-Green vortex carried by a uniform wind:
it moves with the wind and decays as exp(-2 nu t), exactly, which is the answer to compare with.

    python examples/science/navier_stokes.py --grid 64 --steps 20
"""

import argparse
import math
import sys

import torch

import trnfft
import trnsci

WIND = (0.7, -0.4)
NU = 0.05


class Solver:
    """The wave numbers of a periodic grid, and one step in time."""

    def __init__(self, grid, dt):
        k = trnfft.fftfreq(grid, 1 / grid, dtype=torch.float64)
        self.dt, self.size = dt, (grid, grid)
        self.kx, self.ky = k[:, None], k[None, : grid // 2 + 1].abs()  # [grid, 1], [1, grid // 2 + 1]
        self.square = self.kx**2 + self.ky**2
        self.half_decay = torch.exp(-0.5 * NU * dt * self.square)
        # products of two fields alias above two thirds of the highest wave number
        self.kept = (self.kx.abs() < grid / 3) & (self.ky < grid / 3)

    def advection(self, w):
        """Return -u . grad w, from and to Fourier space."""
        psi = w / torch.where(self.square == 0, 1.0, self.square)
        fields = torch.stack([1j * self.ky * psi, -1j * self.kx * psi, 1j * self.kx * w, 1j * self.ky * w])
        u, v, wx, wy = trnfft.irfft2(fields, s=self.size)  # one batch of four transforms
        return -trnfft.rfft2((WIND[0] + u) * wx + (WIND[1] + v) * wy) * self.kept

    def step(self, w):
        """Advance by dt: fourth-order Runge-Kutta in variables in which viscosity is already solved."""
        e, dt = self.half_decay, self.dt
        a = self.advection(w)
        b = self.advection(e * (w + dt / 2 * a))
        c = self.advection(e * w + dt / 2 * b)
        d = self.advection(e * (e * w + dt * c))
        return e * (e * w) + dt / 6 * (e * e * a + 2 * e * (b + c) + d)


def exact(grid, time):
    """Return the vorticity of the vortex at a time: [grid, grid]."""
    x = 2 * math.pi * torch.arange(grid, dtype=torch.float64) / grid
    moved_x, moved_y = x[:, None] - WIND[0] * time, x[None, :] - WIND[1] * time
    return 2 * math.exp(-2 * NU * time) * torch.cos(moved_x) * torch.cos(moved_y)


def main(argv=None):
    """Step, compare, and return 0 when the error is within its bound."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=("auto", "nki", "simulator", "pytorch"), default="auto")
    parser.add_argument("--grid", type=int, default=32, help="points along each side")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--dt", type=float, default=0.05)
    args = parser.parse_args(argv)

    with trnsci.backend(args.backend):
        solver = Solver(args.grid, args.dt)
        w = trnfft.rfft2(exact(args.grid, 0.0))
        start = float(w.abs().square().sum())
        for _ in range(args.steps):
            w = solver.step(w)
        result = trnfft.irfft2(w, s=solver.size)
    time = args.steps * args.dt
    wanted = exact(args.grid, time)
    error = float((result - wanted).norm() / wanted.norm())
    # Runge-Kutta cuts the series of exp(i z) after z**4 / 24, with z = dt (wind . k); each of a step's 20 transforms
    # adds the relative error trnfft states for float64
    z = args.dt * (abs(WIND[0]) + abs(WIND[1]))
    bound = args.steps * (z**5 / 120 * math.exp(z) + 20 * 1e-14)
    passed = error <= bound
    left = math.sqrt(float(w.abs().square().sum()) / start)
    print(f"{args.grid}x{args.grid} grid, {args.steps} steps of {args.dt} to t = {time:.2f}")
    print(f"vorticity left {left:.6f}, exact {math.exp(-2 * NU * time):.6f}")
    print(f"relative error {error:.1e}, bound {bound:.1e}")
    print("passed" if passed else "FAILED")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
