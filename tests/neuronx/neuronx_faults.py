"""Faults of a device, by kernel: what a test tells an imitation to do wrong."""

import os
import signal
import time

FAULTS = {"refuse": str, "fail": str, "wrong": float, "hang": float, "crash": str, "memory": int, "slow": float}


def break_off(fault):
    """Refuse, crash, take memory or hang, as far as told; returns the memory, which is to be kept."""
    # AWS's nki does not import torch, whose import would load the device half-way through
    import torch

    if "refuse" in fault:
        raise RuntimeError(fault["refuse"])
    if "crash" in fault:
        os.kill(os.getpid(), signal.Signals[fault["crash"]])
    held = torch.ones(fault["memory"], dtype=torch.uint8) if "memory" in fault else None
    if "hang" in fault or "memory" in fault:
        time.sleep(fault.get("hang", 60.0))
    return held


def spoil(tensor, by):
    """Return a result with one entry wrong, relative to the largest."""
    wrong = tensor.clone()
    flat = wrong.view(-1)
    if wrong.is_floating_point():
        flat[flat.numel() // 2] += by * float(wrong.abs().nan_to_num(0.0).max())
    else:
        flat[flat.numel() // 2] ^= 1
    return wrong
