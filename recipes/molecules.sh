#!/bin/bash
# Molecules as SMILES: what share of the samples is valid, unique and novel?
#   recipes/molecules.sh moses                                   MOSES: folder with train.csv and test.csv, or downloaded
#   recipes/molecules.sh moses --steps 500 --batch-size 64       further flags go to unmask train
# Everything is written below OUT. If interrupted, run the same command again to resume. The last line needs RDKit
# (pip install "unmask[molecules]"); without it, take OUT/data and OUT/samples.json to a machine that has it.
set -eu
source=${1:-moses} out=${OUT:-molecules}
shift $(($# > 0))
unmask data prepare "$source" --column SMILES --vocabulary 'alphabet:#()-123456=BCFHNOS[]clnors' --length 57 \
    --out "$out/data"
unmask train molecules --data "$out/data" --out "$out/run" \
    --layers 8 --heads 5 --width 320 --mlp relu2 --batch-size 1024 --steps 12000 --optimizer muon --rate 2e-3 --muon-rate 1e-2 \
    --cooldown linear --average 0.998 --save-every 1000 --validate-every 1000 "$@"
unmask eval "$out/run" --sequences "${SEQUENCES:-20000}" --draws 2 --repeats 2
unmask sample "$out/run" -n "${SAMPLES:-10000}" --sampler first-hitting --batch-size 1000 --out "$out/samples.json"
unmask check "$out/samples.json" --checker smiles --data "$out/data"
