#!/bin/bash
# Proteins: bits per residue of held-out proteins, and samples compared with real ones.
#   recipes/proteins.sh proteins.fasta                             a FASTA file or a folder of them, compressed or not
#   recipes/proteins.sh proteins.fasta --size 1m --batch-size 8    further flags go to unmask train
# Everything is written below OUT. If interrupted, run the same command again to resume. Proteins longer than LENGTH are
# left out. The first row of the last table is real data; its unigram entropy and 3-gram perplexity are the reference
# for the bound.
set -eu
source=${1:?a FASTA file} out=${OUT:-proteins}
shift
unmask data prepare "$source" --kind fasta --length "${LENGTH:-1024}" --out "$out/data"
unmask train --data "$out/data" --out "$out/run" \
    --size 10m --mlp relu2 --batch-size 64 --steps 4000 --optimizer muon --rate 2e-3 --muon-rate 1e-2 \
    --cooldown linear --average 0.998 --save-every 1000 --validate-every 1000 "$@"
unmask eval "$out/run"
unmask sample "$out/run" -n 2 --steps 128
unmask frontier "$out/run" --steps 128 -n "${SAMPLES:-256}"
