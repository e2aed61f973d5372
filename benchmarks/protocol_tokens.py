"""How many tokens each zero-shot set has under each protocol, with GPT-2's subwords and sequences of 1,024.

python -m benchmarks.protocol_tokens TOKENIZER_FOLDER SET=FILE ...
"""

from pathlib import Path

import numpy as np
import tyro

from unmask.data.vocabulary import Subwords
from unmask.evaluation import PROTOCOLS, SETS, TextFile, find_detokeniser, find_protocol

from .record import Record, command

LENGTH = 1024


def main(tokenizer: str, *sets: tyro.conf.Positional[str]) -> None:
    """Count and record."""
    record, rows = Record("protocol_tokens", seed=0), []
    vocabulary = Subwords.load(Path(tokenizer))
    for word in sets:
        name, _, file = word.partition("=")
        plain = find_detokeniser(SETS[name].detokeniser)
        text = TextFile(name, Path(file), SETS[name].form)
        encoded = [vocabulary.encode(plain(row)).astype(np.int64) for row in text.rows()]
        counts = {
            protocol: int(find_protocol(protocol).sequences(encoded, LENGTH, vocabulary.eos_id or 0).size)
            for protocol in PROTOCOLS
        }
        rows.append(
            {"set": name, "file": Path(file).name, "rows": len(encoded), "tokens": sum(map(len, encoded))} | counts
        )
        print(rows[-1], flush=True)
    record.write(length=LENGTH, rows=rows)


if __name__ == "__main__":
    command(main)
