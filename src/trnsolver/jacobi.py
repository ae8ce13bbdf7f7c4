"""The constant operands of the Jacobi kernel: which rows meet, and where they go afterwards."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from trnsci.nki import P_MAX
