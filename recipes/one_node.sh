#!/bin/sh
# Train on all GPUs of one machine (or on RANKS processes), restarted up to three times if a rank dies:
#   recipes/one_node.sh openwebtext-small --out runs/owt --parallel fsdp
# A restart resumes from the last checkpoint, and so does running the same command again.
set -eu
exec python3 -m torch.distributed.run --standalone --nproc-per-node "${RANKS:-gpu}" --max-restarts "${RESTARTS:-3}" \
    -m unmask train "$@"
