#!/bin/bash
# Bach's chorales: bits per note of held-out pieces, new music, and melodies harmonised by infilling.
#   recipes/chorales.sh jsb-chorales-16th.json                             four voices on a grid of sixteenths
#   recipes/chorales.sh jsb-chorales-16th.json --size 1m --steps 500       further flags go to unmask train
# Everything is written below OUT. If interrupted, run the same command again to resume. A note is a letter (see
# chorales.py), a row is four bars, and "given the soprano, the other voices" is a text with gaps. The results include
# MIDI files to listen to.
set -eu
source=${1:?the JSON file of the chorales} out=${OUT:-chorales}
shift
notes() { python3 "$(dirname "$0")/chorales.py" "$@"; }
notes lines "$source" "$out/notes"
unmask data prepare "$out/notes" --kind lines --out "$out/data"
unmask train --data "$out/data" --out "$out/run" \
    --size 3m --mlp relu2 --dropout 0.2 --batch-size 128 --steps 4000 --optimizer muon --rate 2e-3 --muon-rate 1e-2 \
    --cooldown linear --average 0.998 --save-every 500 --validate-every 500 --validation-sequences 256 "$@"
unmask eval "$out/run"
unmask sample "$out/run" -n "${SAMPLES:-4}" --min-length 256 --sampler first-hitting --out "$out/new.txt"
mapfile -t melodies < <(notes soprano "$out/notes/test.txt" "${SAMPLES:-4}")
unmask infill "$out/run" "${melodies[@]}" --sampler first-hitting --out "$out/harmonised.txt"
notes midi "$out/new.txt"
notes midi "$out/harmonised.txt"
