"""Deprecated: `trnsim.kernel` under its old name, for one release."""

import warnings

from trnsim.kernel import *  # noqa: F403

warnings.warn("trnsim.program is now trnsim.kernel", DeprecationWarning, stacklevel=2)
