"""``python -m trnsim`` is the ``trnsim`` command."""

from trnsim.cli import main

raise SystemExit(main())
