#!/bin/sh
# Train on several machines: give the same command on each of them, with a folder that all of them see as --out.
#   NODES=4 HEAD=node0:29400 recipes/several_nodes.sh fineweb-edu-large --out /shared/runs/large --parallel fsdp
# HEAD is one of the machines, by a name that the others can reach. Machines may come back after a failure: they meet
# there again, and the run goes on from its last checkpoint.
set -eu
: "${NODES:?how many machines}" "${HEAD:?host:port of one of them}"
exec python3 -m torch.distributed.run --nnodes "$NODES" --nproc-per-node "${RANKS:-gpu}" \
    --rdzv-backend c10d --rdzv-endpoint "$HEAD" --rdzv-id "${JOB:-unmask}" --max-restarts "${RESTARTS:-3}" \
    -m unmask train "$@"
