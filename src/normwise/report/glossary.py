"""What the logged quantities, geometry figures and gates are called and mean, one line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def plain_name(key: str) -> str:
    """A key of a record as a name for people.

    Example:
        >>> plain_name("truncated_share"), plain_name("e3_knn")
        ('Truncated share', 'E3 knn')
    """
    words = re.sub(r"[_\s]+", " ", key).strip()
    return words[:1].upper() + words[1:]


CURVES = {
    "loss": ("Training loss", "Mean over the batch. Not comparable between runs with another similarity or temperature."),
    "residual": ("Residual", "1 − probability of the positive, mean of the batch. It falls as positives win."),
    "gradient_norm": ("Gradient norm", "Before clipping. Spikes mean an unstable stage."),
    "norm_mean": ("Mean norm", "Mean length of the raw candidate vectors, before any normalization."),
    "norm_cv": ("Norm spread (CV)", "Standard deviation of the candidate norms over their mean. Near 0, length carries nothing."),
    "effective_sample_size": ("Effective sample size", "How many queries of the batch carry the loss weights: (Σa)²/Σa²."),
    "positive_cosine": ("Cosine of positives", "Mean cosine of a query and its positive."),
    "positive_probability": ("Positive probability", "Softmax probability of the positive, mean of the batch."),
    "entanglement": ("Entanglement", "In the batch: correlation of log(query norm × positive norm) with the pair’s cosine."),
    "norm_length": ("Norm against length", "In the batch: correlation of log norm with log number of tokens."),
    "anisotropy": ("Anisotropy", "Mean cosine of unrelated pairs. Near 1, all vectors point one way."),
    "query_norm_mean": ("Mean query norm", "Mean length of the raw query vectors."),
    "norm_p01": ("Shortest candidates", "1st percentile of the candidate norms in the batch."),
    "norm_p99": ("Longest candidates", "99th percentile of the candidate norms in the batch."),
    "temperature": ("Temperature", "What divides the score."),
    "learning_rate": ("Learning rate", "As scheduled."),
    "duplicates_masked": ("Duplicates masked", "Candidates left out because they equal the positive."),
}
_FIRST_CURVES = ("loss", "residual", "gradient_norm", "norm_mean", "norm_cv", "effective_sample_size")

# The longest matching prefix explains a geometry figure (definitions: entanglement E1 to E6, anisotropy A1 to A5).
GEOMETRY = {
    "e1": "Pearson correlation of log(query norm × positive norm) with the pair’s cosine. Near 0: length and angle are separate.",
    "e2": "The same by ranks (Spearman).",
    "e3": "Share of the variance of log norm that the direction alone predicts, on held-out vectors. 1: length is a function of direction.",
    "e3_knn": "How well the 10 nearest directions predict log norm (held-out R²). 1: length only repeats the direction.",
    "e3_ridge": "How well a ridge regression on the direction predicts log norm (held-out R²).",
    "e3_ellipsoid": "How well an ellipsoid fits the norms (held-out R²). 1: an RMSNorm at the end decides the length.",
    "e3_affine": "How well 1/norm is linear in the direction (held-out R²). 1: a LayerNorm at the end decides the length.",
    "e3_plane": "How well 1/norm is linear in the direction (held-out R²). 1: a LayerNorm at the end decides the length.",
    "radial_freedom": "1 − the best of the held-out R². Near 0, the norm is a function of the direction and holds no news.",
    "e4": "Moran’s I of log norm on the graph of nearest directions. Above 0: neighbors have similar lengths.",
    "e5": "Distance correlation of direction and log norm. 0: independent.",
    "e6": "How much the angular gradient changes with the length, and the radial one with the direction.",
    "a1": "Mean cosine of random query-candidate pairs. Near 0 is spread out, near 1 is collapsed.",
    "a2": "Squared length of the mean direction. Equals the mean cosine within one set.",
    "a3": "Effective rank of the vectors: how many dimensions are in use.",
    "a3_isoscore": "IsoScore: 1 uses all dimensions equally, 0 uses one.",
    "isoscore": "IsoScore: 1 uses all dimensions equally, 0 uses one.",
    "effective_rank": "Effective rank of the vectors: how many dimensions are in use.",
    "a4": "Hubness: skewness of how often a candidate is among the 10 nearest. High: few candidates answer many queries.",
    "mean_cosine": "Mean cosine of two different vectors. Near 0 they are spread out, near 1 all point one way.",
    "hubness": "Skewness of how often a vector is among the 10 nearest of the others. High: a few are near everything.",
    "norm_hubs_dot": "Share of first places by dot product that the longest 1% take. Far above 1%: long vectors answer whatever is asked.",
    "norm_hubs_cosine": "The same by cosine, where length does not count: what the longest 1% take for their direction alone.",
    "hub_share_dot": "Share of first places by dot product that the most frequent vector takes.",
    "hub_share_cosine": "Share of first places by cosine that the most frequent vector takes.",
    "hub": "Share of queries whose first hit is the most frequent candidate. High: one candidate answers too much.",
    "a5": "Uniformity or alignment of the unit vectors.",
    "a5_uniformity": "Uniformity: log mean exp(−2 · squared distance) of unit vectors. Lower is more spread out.",
    "a5_alignment": "Alignment: mean squared distance of a query’s direction to its positive’s. Lower is closer.",
    "uniformity": "Uniformity: log mean exp(−2 · squared distance) of unit vectors. Lower is more spread out.",
    "alignment": "Alignment: mean squared distance of a query’s direction to its positive’s. Lower is closer.",
    "norm_mean": "Mean norm before any normalization.",
    "norm_cv": "Standard deviation of the norm over its mean.",
    "norm": "A figure of the norms before any normalization.",
    "query_norm": "A figure of the query norms before any normalization.",
    "candidate_norm": "A figure of the candidate norms before any normalization.",
}

_GATES = {
    "merge": "LoRA merge verified",
    "angular": "Angular quality",
    "logit": "Logits matched at the switch",
    "freedom": "Can the norm move?",
}


def curve_order(keys: Sequence[str]) -> list[str]:
    """Logged quantities, the best known first, the rest in alphabetical order."""
    known = [key for key in (*_FIRST_CURVES, *CURVES) if key in keys]
    return [*dict.fromkeys(known), *sorted(set(keys) - set(known))]


def curve_words(key: str) -> tuple[str, str]:
    """Title and one-line explanation of a logged quantity."""
    return CURVES.get(key, (plain_name(key), "As logged during training."))


def is_main_curve(key: str) -> bool:
    """Whether a logged quantity is shown without unfolding."""
    return key in _FIRST_CURVES


def geometry_words(key: str) -> str:
    """What a geometry figure means, in one line."""
    matches = [prefix for prefix in GEOMETRY if key.lower().startswith(prefix)]
    return GEOMETRY[max(matches, key=len)] if matches else ""


def geometry_order(keys: Iterable[str]) -> list[str]:
    """Geometry figures in the order of their definitions: entanglement, freedom of the norm, anisotropy, the rest."""

    def place(key: str) -> tuple[int, str]:
        groups = (r"e\d", r"radial", r"a\d")
        return next((i for i, pattern in enumerate(groups) if re.match(pattern, key.lower())), len(groups)), key

    return sorted(keys, key=place)


def gate_outcome(name: str, *, passed: bool) -> tuple[str, str]:
    """Word and tone of a gate; whether a norm can move is a finding, not a failure."""
    if "freedom" in name.lower():
        return ("✓ yes", "passed") if passed else ("– no", "undecided")
    return ("✓ passed", "passed") if passed else ("✕ not passed", "failed")


def gate_title(name: str) -> str:
    """What a gate is called on the page."""
    for part, title in _GATES.items():
        if part in name.lower():
            return title
    return plain_name(name)
