"""``python -m trnchem``."""

import sys

from trnchem.cli import main

sys.exit(main())
