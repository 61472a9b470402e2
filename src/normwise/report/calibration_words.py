"""What calibrators and signals are called on a page, and what each does, in a line."""

from __future__ import annotations

import re

CALIBRATORS: dict[str, tuple[str, str]] = {
    "softmax": ("Softmax", "largest softmax share of the scores at the training temperature; nothing is fitted"),
    "temperature": ("Temperature scaling", "softmax share at one fitted temperature"),
    "norm_temperature": ("Norm-dependent temperature", "a temperature that follows the norm of the query"),
    "norm_temperature_controls": (
        "Norm-dependent temperature, controls",
        "a temperature that follows norm, length and frequency of the query",
    ),
    "logistic": ("Logistic", "score, margin, and entropy where the temperature is known"),
    "logistic_norm": ("Logistic + norms", "score, margin, entropy likewise, and log norms of query and first hit"),
    "logistic_controls": ("Logistic + controls", "curves of score, margin, entropy, length and frequency; no norm"),
    "logistic_controls_norm": ("Logistic + controls + norms", "curves of score, margin, entropy, length and frequency, and log norms"),
    "isotonic": ("Isotonic", "a rising broken line on top of another calibrator"),
    "beta": ("Beta", "a rising curve of three numbers on top of another calibrator"),
    "norm_reranking": ("Re-ranking by the norm", "score · ‖d‖^β"),
    "length_reranking": ("Re-ranking by length", "score · (1 + tokens)^β: a control"),
    "frequency_reranking": ("Re-ranking by frequency", "score · (1 + count)^β: a control"),
    "permuted_norm_reranking": ("Re-ranking by shuffled norms", "score · ‖other d‖^β: the null"),
    "norm_prior": ("Norm as a prior", "b · score + a · log ‖d‖"),
    "length_prior": ("Length as a prior", "b · score + a · log(1 + tokens): a control"),
    "frequency_prior": ("Frequency as a prior", "b · score + a · log(1 + count): a control"),
    "permuted_norm_prior": ("Shuffled norms as a prior", "b · score + a · log ‖other d‖: the null"),
}

SIGNALS: dict[str, str] = {
    "score": "score of the first hit",
    "margin": "first minus second score",
    "spread": "standard deviation of the first scores",
    "lead": "first score minus the mean of the next ones",
    "entropy": "of the softmax at the temperature; less is more confident",
    "residual": "1 minus the softmax share of the first hit; less is more confident",
}

GAINS: dict[str, str] = {
    "e_aurc": "E-AURC",
    "aurc": "AURC",
    "nll": "NLL",
    "brier": "Brier score",
    "e_aurc of shuffled norms": "E-AURC, shuffled norms (the check)",
}

# How verdicts begin that a headline says already: up to there they are left out below it.
_SAID = re.compile(r"No usable threshold[^:]*: |Answer when the probability is [^:]*: ")


def without_headline(text: str) -> str:
    """A verdict without the words that stand in the headline above it.

    Example:
        >>> without_headline("Answer when the probability is 0.7 or more: precision is then at least 0.9.")
        'Precision is then at least 0.9.'
    """
    return capital(_SAID.sub("", text, count=1) if _SAID.match(text) else text)


def capital(text: str) -> str:
    """The same text with a capital at its start.

    Example:
        >>> capital("the NLL")
        'The NLL'
    """
    return text[:1].upper() + text[1:]


def calibrator_name(name: str) -> str:
    """How a calibrator is called on a page; an unknown name stays as it is.

    Example:
        >>> calibrator_name("temperature"), calibrator_name("other")
        ('Temperature scaling', 'other')
    """
    return CALIBRATORS.get(name, (name, ""))[0]
