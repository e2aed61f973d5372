#!/bin/bash
# Molecules as SMILES: how many are valid, different, and new?
#   recipes/molecules.sh moses                                   MOSES: a folder with train.csv and test.csv, or fetched
#   recipes/molecules.sh moses --steps 500 --batch-size 64       what follows goes to unmask train
# All is written below OUT. The same command again goes on where it was. The last line needs RDKit
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
