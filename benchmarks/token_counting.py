"""Claims: order 0 and windowed order 1 are counted at 20 million tokens per minute and core, and 3x as fast as with CountVectorizer.

The text is every Python file of the standard library, its words in lower case, 200 to a line; each line is a document. 200 words are
kept as rows, next words and contexts; the window is 8. All times are of the processor, so that they are per core, and busy neighbors
count little.

- Ids: the text as uint16 in one file, repeated; from opening it to the counts, in one process.
- Text: from the text file to the counts, through a tokenizer.json of whole words (the library tokenizers), against CountVectorizer with an
  analyzer that yields (a, v) for each pair of kept words and (a, v, b) for each different kept word b in the window before; the counts of
  both are equal. The plain CountVectorizer of words and pairs of words, which counts no window, stands beside it.
- Memory: the peak of a fresh process, for the ids and for four times as many.

Run: python benchmarks/token_counting.py [--rounds 3] [--tokens 8000000] [--lines 3000]
"""

from __future__ import annotations

import argparse
import platform
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn
from sklearn.feature_extraction.text import CountVectorizer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from normwise.core.files import write_json
from normwise.data.token_files import TokenFiles, TokenReading, open_token_files
from normwise.engine.token_counting import Counting, count_tokens
from normwise.theory.stream_counts import CountPlan, StreamCounts

RESULT = Path(__file__).parent / "results" / "token_counting.json"
WINDOW, KEPT, PER_LINE, VOCABULARY = 8, 200, 200, 60_000
LEAST_SPEED, LEAST_GAIN, MOST_GROWTH = 20.0, 3.0, 1.1


def text_lines() -> list[list[str]]:
    """Words of the standard library, in the order of its files."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = (path for path in sorted(folder.rglob("*.py")) if "site-packages" not in path.parts)
    words = [word for path in files for word in re.findall(r"[a-z]+", path.read_text(encoding="utf-8", errors="ignore").lower())]
    return [words[start : start + PER_LINE] for start in range(0, len(words), PER_LINE)]


def plan(vocabulary: int) -> CountPlan:
    """Ids are in the order of frequency, from 1; 0 ends a line."""
    kept = np.arange(1, KEPT + 1)
    return CountPlan(vocabulary=vocabulary, of=kept, targets=kept, contexts=kept, presence=WINDOW)


def ours(files: Callable[[], TokenFiles]) -> StreamCounts:
    opened = files()
    return count_tokens(opened, plan(opened.vocabulary), Counting(workers=1))


def theirs(lines: list[str], kept: list[str]) -> tuple[CountVectorizer, np.ndarray]:
    """The same counts as features of an analyzer."""
    known = frozenset(kept)

    def features(line: str):
        words = line.split()
        for place, (word, following) in enumerate(zip(words, words[1:], strict=False)):
            if word in known and following in known:
                yield word, following
                for before in known.intersection(words[max(0, place - WINDOW) : place]):
                    yield word, following, before

    vectorizer = CountVectorizer(analyzer=features, dtype=np.int64)
    return vectorizer, np.asarray(vectorizer.fit_transform(lines).sum(axis=0)).ravel()


def check_equal(counts: StreamCounts, vectorizer: CountVectorizer, sums: np.ndarray, kept: list[str]) -> None:
    numbers = {word: number for number, word in enumerate(kept)}
    followed, presence = np.zeros((KEPT, KEPT), dtype=np.int64), np.zeros((KEPT,) * 3, dtype=np.int64)
    for feature, column in vectorizer.vocabulary_.items():
        (followed if len(feature) == 2 else presence)[tuple(numbers[word] for word in feature)] = sums[column]
    if not (np.array_equal(followed, counts.followed) and np.array_equal(presence, counts.presence)):
        raise RuntimeError("the two ways do not count the same")


def seconds(work: Callable[[], object], rounds: int) -> list[float]:
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return found


def figures(values: list[float]) -> dict[str, object]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def peak_mib(path: Path) -> float:
    done = subprocess.run([sys.executable, __file__, "--alone", str(path)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 3), ("tokens", 8_000_000), ("lines", 3_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--alone", type=Path, help="only count this file of ids; prints the peak memory in MiB")
    options = parser.parse_args()
    if options.alone:
        ours(lambda: open_token_files(options.alone, TokenReading(vocabulary=VOCABULARY, end=0)))
        status = Path("/proc/self/status").read_text(encoding="ascii")
        print(int(status.split("VmHWM:")[1].split()[0]) / 2**10)
        return
    lines = text_lines()
    order = [word for word, _ in Counter(word for line in lines for word in line).most_common(VOCABULARY - 1)]
    numbers = {word: number for number, word in enumerate(order, start=1)}
    ids = np.array([number for line in lines for number in [*(numbers.get(word, VOCABULARY - 1) for word in line), 0]], dtype=np.uint16)
    with tempfile.TemporaryDirectory() as folder:
        claims = [*of_ids(ids, Path(folder), options), *of_text(lines[: options.lines], order, Path(folder), options)]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"
    write_json(RESULT, {"machine": f"{machine}, scikit-learn {sklearn.__version__}", "claims": claims})
    for claim in claims:
        print(claim)


def of_ids(ids: np.ndarray, folder: Path, options: argparse.Namespace) -> list[dict[str, object]]:
    once, four = folder / "once.npy", folder / "four.npy"
    np.save(once, np.resize(ids, options.tokens))
    np.save(four, np.resize(ids, 4 * options.tokens))
    took = seconds(lambda: ours(lambda: open_token_files(once, TokenReading(vocabulary=VOCABULARY, end=0))), options.rounds)
    speed = figures([options.tokens / second * 60.0 / 1e6 for second in took])
    peaks = [peak_mib(once), peak_mib(four)]
    size = f"order 0 and presence in a window of {WINDOW}, {KEPT} tokens kept of {VOCABULARY:,}"
    note = f"{8 * KEPT**3 / 2**20:.0f} MiB of counts; {peaks[0]:.0f} and {peaks[1]:.0f} MiB in all, interpreter and libraries included"
    return [
        {
            "claim": f"{size}, {options.tokens:,} ids in a file, one core",
            **speed,
            "unit": " M tokens/min",
            "bound": LEAST_SPEED,
            "holds": speed["median"] >= LEAST_SPEED,
            "note": f"{statistics.median(took):.2f} s of the processor; the bound is the least",
        },
        {
            "claim": f"peak memory for {4 * options.tokens:,} ids / for {options.tokens:,}",
            **figures([peaks[1] / peaks[0]]),
            "unit": "x",
            "bound": MOST_GROWTH,
            "holds": peaks[1] / peaks[0] <= MOST_GROWTH,
            "note": note,
        },
    ]


def of_text(lines: list[list[str]], order: list[str], folder: Path, options: argparse.Namespace) -> list[dict[str, object]]:
    known = Tokenizer(WordLevel({word: number for number, word in enumerate(order, start=1)}, unk_token=order[-1]))
    known.pre_tokenizer = WhitespaceSplit()
    known.save(str(folder / "tokenizer.json"))
    texts, kept = [" ".join(line) for line in lines], order[:KEPT]
    (folder / "text.txt").write_text("\n".join(texts), encoding="utf-8")
    files = lambda: open_token_files(folder / "text.txt", TokenReading(tokenizer=folder))  # noqa: E731
    check_equal(ours(files), *theirs(texts, kept), kept)
    plain = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+", lowercase=False)
    took = [
        seconds(work, options.rounds) for work in (lambda: ours(files), lambda: theirs(texts, kept), lambda: plain.fit_transform(texts))
    ]
    tokens = sum(len(line) for line in lines)
    middle = [statistics.median(found) for found in took]
    gains = [figures([slow / fast for slow, fast in zip(found, took[0], strict=True)]) for found in took[1:]]
    speed = figures([tokens / second * 60.0 / 1e6 for second in took[0]])
    return [
        {
            "claim": f"the same counts of a text of {tokens:,} words: CountVectorizer with an analyzer for them / ours with the tokenizer",
            **gains[0],
            "unit": "x",
            "bound": LEAST_GAIN,
            "holds": gains[0]["median"] >= LEAST_GAIN,
            "note": f"{middle[1]:.2f} s / {middle[0]:.2f} s; the bound is the least; counts are equal",
        },
        {
            "claim": "plain CountVectorizer of words and pairs of words, without a window / ours with the window",
            **gains[1],
            "unit": "x",
            "bound": None,
            "holds": None,
            "note": f"{middle[2]:.2f} s / {middle[0]:.2f} s; it counts less: no window, and nothing is kept apart",
        },
        {
            "claim": "ours from text, tokenizer included, one core",
            **speed,
            "unit": " M tokens/min",
            "bound": LEAST_SPEED,
            "holds": speed["median"] >= LEAST_SPEED,
            "note": "a tokenizer of whole words",
        },
    ]


if __name__ == "__main__":
    main()
