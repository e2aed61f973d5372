#!/bin/bash
# Proteins: bits per residue of proteins that were held out, and samples beside real ones.
#   recipes/proteins.sh proteins.fasta                             a FASTA file or a folder of them, compressed or not
#   recipes/proteins.sh proteins.fasta --size 1m --batch-size 8    what follows goes to unmask train
# All is written below OUT. The same command again goes on where it was. Proteins longer than LENGTH are left out. The
# first row of the last table is real: its unigram entropy and 3-gram perplexity are what the bound is to be compared with.
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
