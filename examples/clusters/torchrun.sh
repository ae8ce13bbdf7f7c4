#!/bin/sh
# The energy of water with torchrun, on RANKS processes of this machine. torchrun starts all of them again when one
# fails, up to RESTARTS times, and the checkpoint keeps what was finished.
exec torchrun --nproc-per-node "${RANKS:-2}" --max-restarts "${RESTARTS:-2}" \
    --master-addr 127.0.0.1 --master-port "${PORT:-29500}" \
    "$(dirname "$0")/energy.py" water "${CHECKPOINT:-water.ckpt}"
