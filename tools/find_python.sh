#!/bin/sh
# Runs its arguments with the first Python on this machine that is new enough; PYTHON=... chooses one.
# Tested versions come first. Each candidate is run, because a version manager's shim can exist and still refuse.

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "$PYTHON" ]; then
    new_enough "$PYTHON" && exec "$PYTHON" "$@"
    found=$("$PYTHON" --version 2>&1 | head -n 1)
    echo "set-up: PYTHON=$PYTHON is not Python 3.11 or newer: ${found:-it does not run}. Give the path of another one." >&2
    exit 1
fi
for candidate in python3.11 python3.12 python3 python python3.13; do
    new_enough "$candidate" && exec "$candidate" "$@"
done
found=$(python3 --version 2>/dev/null | head -n 1)
echo "set-up: no Python 3.11 or newer on the PATH (found: ${found:-no python3 at all})." >&2
echo "Install one (Debian or Ubuntu: apt install python3 python3-venv; macOS: brew install python@3.12)," >&2
echo "or name it: make PYTHON=/path/to/python3.12 ..." >&2
exit 1
