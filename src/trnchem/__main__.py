"""``python -m trnchem``."""

import sys

from trnsim.interrupts import leaving

with leaving("trnchem"):
    from trnchem.cli import main

sys.exit(main())
