"""``python -m trnsci`` is the ``trnsci`` command."""

from trnsci.cli import main

raise SystemExit(main())
