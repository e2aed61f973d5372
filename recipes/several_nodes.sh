#!/bin/sh
# Train on several machines: run the same command on each of them, with --out in a folder that all of them share.
#   NODES=4 HEAD=node0:29400 recipes/several_nodes.sh fineweb-edu-large --out /shared/runs/large --parallel fsdp
# HEAD is one of the machines, by a name that the others can reach. Machines may rejoin there after a failure, and the
# run resumes from its last checkpoint.
set -eu
: "${NODES:?how many machines}" "${HEAD:?host:port of one of them}"
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1  # a restart meets no addresses of the ranks before it
exec python3 -m torch.distributed.run --nnodes "$NODES" --nproc-per-node "${RANKS:-gpu}" \
    --rdzv-backend c10d --rdzv-endpoint "$HEAD" --rdzv-id "${JOB:-unmask}" --max-restarts "${RESTARTS:-3}" \
    -m unmask train "$@"
