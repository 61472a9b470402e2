"""From token files to signatures of several orders: who gets a place, and that counts are those of the whole corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.token_files import TokenFiles, TokenReading, open_token_files
from normwise.engine import order_counting
from normwise.engine.order_counting import CountedOrders, OrderCounting, count_orders
from normwise.engine.token_counting import Counting
from normwise.theory.alignment import cosine_gram
from normwise.theory.stream_signatures import next_token_signature, presence_signature
from normwise.theory.token_stream import TokenStream

HERE = Counting(workers=1)


def ids_of(seed: int = 0, *, vocabulary: int = 30, length: int = 3_000) -> np.ndarray:
    random = np.random.default_rng(seed)
    ids = random.choice(vocabulary - 1, size=length, p=random.dirichlet(np.full(vocabulary - 1, 0.7))) + 1
    ids[::37] = 0
    return ids.astype(np.uint16)


def files_of(folder: Path, ids: np.ndarray, *, vocabulary: int = 30, end: int | None = 0, shard: int = 1 << 20) -> TokenFiles:
    np.save(folder / "ids.npy", ids)
    return open_token_files(folder / "ids.npy", TokenReading(vocabulary=vocabulary, end=end, shard_tokens=shard))


def counted(folder: Path, *, counting: Counting = HERE, **asked: object) -> CountedOrders:
    return count_orders(files_of(folder, ids_of()), OrderCounting(**asked), counting)  # pyright: ignore[reportArgumentType]


def test_signatures_are_those_of_the_whole_stream(tmp_path: Path) -> None:
    ids = ids_of()
    found = counted(tmp_path, orders=(0, 1), tokens=12, window=5)
    stream = TokenStream(ids.astype(np.int64), vocabulary=30, end=0)
    of = found.signatures.tokens
    counts = np.bincount(ids, minlength=30)
    counts[0] = 0
    assert of.tolist() == np.argsort(-counts, kind="stable")[:12].tolist()
    assert found.signatures.counts.tolist() == counts[of].tolist()
    zero, one = next_token_signature(stream, of=of), presence_signature(stream, window=5, of=of)
    embedding = np.random.default_rng(0).normal(size=(12, 4))
    expected = [np.corrcoef(_pairs(cosine_gram(each.values.reshape(12, -1))), _pairs(cosine_gram(embedding)))[0, 1] for each in (zero, one)]
    at = found.signatures.at(embedding)
    assert [at[order].figure.value for order in (0, 1)] == pytest.approx(expected, abs=1e-10)
    assert (found.next_tokens, found.contexts, found.sketches, found.window, found.positions) == (30, 30, None, 5, ids.size)


def _pairs(gram: np.ndarray) -> np.ndarray:
    return gram[np.triu_indices(gram.shape[0], k=1)]


def test_order_2_is_sketched_near_its_exact_gram(tmp_path: Path) -> None:
    ids = ids_of(1, vocabulary=9, length=1_500)
    found = count_orders(files_of(tmp_path, ids, vocabulary=9), OrderCounting(orders=(2,), window=4), HERE)
    assert found.signatures.orders == (2,)
    assert found.sketches == 32
    of = found.signatures.tokens
    exact = np.zeros((9, 9, 9, 9))
    start = 0
    for place, token in enumerate(ids):
        if token == 0:
            start = place + 1
            continue
        if place + 1 < ids.size:
            before = np.unique(ids[max(start, place - 4) : place])
            for b in before:
                for c in before[before != b]:
                    exact[token, ids[place + 1], b, c] += 1
    exact = exact[of] / np.array([np.count_nonzero(ids[:-1] == token) for token in of])[:, None, None, None]
    wanted, came = _pairs(cosine_gram(exact.reshape(of.size, -1))), _pairs(cosine_gram(_rows(found, 2)))
    assert np.abs(wanted - came).mean() < 0.12
    assert np.corrcoef(wanted, came)[0, 1] > 0.5


def _rows(found: CountedOrders, order: int) -> np.ndarray:
    return found.signatures._values[order].reshape(found.signatures.tokens.size, -1)


@pytest.mark.parametrize(("shard", "workers"), [(1 << 20, 1), (200, 1), (200, 2)])
def test_counts_depend_on_no_shard_or_worker(tmp_path: Path, shard: int, workers: int) -> None:
    whole = count_orders(files_of(tmp_path, ids_of()), OrderCounting(orders=(0, 1, 2), tokens=9), HERE)
    again = count_orders(files_of(tmp_path, ids_of(), shard=shard), OrderCounting(orders=(0, 1, 2), tokens=9), Counting(workers=workers))
    for order in (0, 1, 2):
        assert np.array_equal(_rows(whole, order), _rows(again, order))


def test_named_tokens_have_rows_and_are_not_compared(tmp_path: Path) -> None:
    plain = counted(tmp_path, tokens=10)
    seen, counts = np.unique(ids_of(), return_counts=True)
    rare = int(seen[np.argmin(counts)])
    top = int(plain.signatures.tokens[3])
    named = counted(tmp_path, tokens=10, named=(rare, top))
    assert named.signatures.tokens.tolist() == [*plain.signatures.tokens.tolist(), rare]
    assert named.named == (3, 10)
    assert named.signatures.judged.tolist() == list(range(10))


def test_large_vocabularies_keep_the_most_frequent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_counting, "_MOST_COUNTS", 10 * 16)
    found = counted(tmp_path, tokens=10, orders=(0, 1))
    assert (found.next_tokens, found.contexts) == (16, 4)
    top = np.argsort(-np.bincount(ids_of(), minlength=30), kind="stable")
    assert _rows(found, 1).shape == (10, 16)
    assert 0.0 < found.signatures.left_out < 1.0
    assert any("too rare to have a place in order 0" in note for note in found.notes)
    assert top.size == 30


def test_progress_is_kept_and_gone_on_with(tmp_path: Path) -> None:
    files = files_of(tmp_path, ids_of())
    asked = OrderCounting(orders=(0, 1), tokens=9)
    first = count_orders(files, asked, Counting(workers=1, folder=tmp_path / "progress"))
    seen: list[tuple[int, int]] = []
    again = count_orders(
        files, asked, Counting(workers=1, folder=tmp_path / "progress", resume=True), told=lambda done, all_of: seen.append((done, all_of))
    )
    assert seen == []
    assert np.array_equal(_rows(first, 1), _rows(again, 1))


def test_what_is_not_there_is_told_and_small_corpora_are_refused(tmp_path: Path) -> None:
    ids = np.array([5, 6, 5, 7, 6, 5, 0], dtype=np.uint16)
    found = count_orders(files_of(tmp_path, ids, vocabulary=100), OrderCounting(orders=(0,)), HERE)
    assert found.never == 96
    assert found.notes == (
        "96 of 100 tokens of the vocabulary are nowhere in the corpus; they are not compared",
        "the highest id in the corpus is 7 of 100: was it made by this model's tokenizer?",
    )
    with pytest.raises(InputError, match="tokens is 5, and 3 of 100 stand in the corpus: ask for fewer"):
        count_orders(files_of(tmp_path, ids, vocabulary=100), OrderCounting(orders=(0,), tokens=5), HERE)
    with pytest.raises(InputError, match="2 tokens stand in the corpus; expected at least 3"):
        count_orders(files_of(tmp_path, np.array([5, 6, 5, 0], dtype=np.uint16)), OrderCounting(orders=(0,)), HERE)
    with pytest.raises(InputError, match="no document is longer than|window"):
        count_orders(files_of(tmp_path, ids, vocabulary=100), OrderCounting(orders=(1,), window=50), HERE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orders": (0, 3)}, "orders are 0, 3; expected one or more of 0, 1 and 2, each once"),
        ({"orders": ()}, "orders are none"),
        ({"orders": (0, 0)}, "orders are 0, 0"),
        ({"tokens": 2}, "tokens is 2; expected at least 3"),
        ({"window": 0}, "window is 0; expected at least 1 token"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OrderCounting(**settings)  # pyright: ignore[reportArgumentType]


def test_named_ids_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="named holds 30; expected ids from 0 to 29"):
        counted(tmp_path, named=(30,))
