"""Names of factors: which kind they stand for, by whole words and nothing less."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from normwise.core.errors import InputError
from normwise.theory.factor_reading import COUNTED, KINDS, factor_columns, is_logarithm, kind_of, known_kind

NAMES = {
    "length": "tokens n_tokens num_tokens numTokens tokenCount token_count number_of_words words word_count doc_length text-length len "
    "Length n_characters letters log_tokens".split(),
    "frequency": "frequency freq log_freq logFreq log10(freq) logfreq corpus_count count zipf_frequency frequency_per_million popularity "
    "views page_views viewCount clicks n_clicks visits num_ratings review_count count_of_downloads Word-Frequency".split(),
    "specificity": "idf IDF inverse_document_frequency depth wordnet_depth hyponyms n_senses senses kappa dispersion".split(),
    "uncertainty": "uncertainty entropy label_entropy log_entropy perplexity ratings_sd residual is_correct spread".split(),
}
NONE = (
    "year price color discount discounts account county viewer tokenizer frequency_rank rare_words sepal_length views_per_day ratings "
    "token word user_count page_count error_count n num log bus class _"
).split()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_names_of_a_kind_are_recognized(kind, name):
    assert known_kind(name) == kind
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", NONE)
def test_no_part_of_a_word_is_guessed_from(name):
    assert known_kind(name) is None
    assert kind_of(name) == name


@given(some.sampled_from([name for names in (*NAMES.values(), NONE) for name in names if name.islower()]))
def test_how_a_name_is_written_does_not_matter(name):
    kind = known_kind(name)
    parts = name.replace("-", "_").split("_")
    for other in (name.upper(), " ".join(parts), "-".join(parts), "log_" + name, "".join(part.title() for part in parts)):
        assert known_kind(other) == kind


def test_no_word_is_of_two_kinds():
    for table in (KINDS, COUNTED):
        words = [word for names in table.values() for word in names]
        assert len(words) == len(set(words))
    assert all(known_kind(word) == kind for kind, names in KINDS.items() for word in names)
    assert all(known_kind(f"n_{word}s") == known_kind(f"{word}_count") == kind for kind, names in COUNTED.items() for word in names)


def test_logarithms_are_words_too():
    assert [is_logarithm(name) for name in ("logFreq", "logfreq", "ln_count", "logins", "catalog")] == [True, True, True, False, False]


def test_texts_that_name_rows_are_shown():
    values = np.array([f"the story of number {row}, told at some length" for row in range(40)])
    with pytest.raises(InputError, match="factor 'title' holds 40 .* the first text is 'the story of number 0, told at some leng…'"):
        factor_columns("title", values)
