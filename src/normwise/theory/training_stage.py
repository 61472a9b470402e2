"""How far a training came: whether weight decay had the time to balance growth, and below which visit rate Adam writes frequency."""

from __future__ import annotations

import math
from typing import Literal

from normwise.core.norm_records import TrainingEvidence
from normwise.theory.adaptive import relaxation_steps_adam
from normwise.theory.equilibria import relaxation_steps

Stage = Literal["growth", "equilibrium"]
# The default of torch's Adam and AdamW.
USUAL_BETA2 = 0.999
# After five memories the start weighs e^-5 < 1% in Adam's second moment: less than what the laws leave out anyway.
MEMORIES = 5


def is_adam(training: TrainingEvidence) -> bool:
    """Return whether the optimizer divides the gradient's size out."""
    return training.optimizer in ("adam", "adamw")


def lacks_law(training: TrainingEvidence) -> str:
    """Return why no law holds for the weight decay of these settings, in words; nothing where there is one.

    Example:
        >>> lacks_law(TrainingEvidence(optimizer="adamw", learning_rate=0.5, weight_decay=2.0))
        'learning rate times weight decay is 1 or more: one step of decay erases a vector, so no law holds'
    """
    decay, eta = training.weight_decay, training.learning_rate
    if training.optimizer == "adam" and decay:
        return "adam takes weight decay for a part of the gradient, which it then divides by its size: no law is known for that"
    if decay and eta and decay * eta >= 1.0:
        return "learning rate times weight decay is 1 or more: one step of decay erases a vector, so no law holds"
    return ""


def relaxation_of(training: TrainingEvidence) -> float | None:
    """Return the steps (visits, where decay is lazy) in which decay forgets the start, by the law of this optimizer.

    Equations: about 1 / (4 eta lambda) for SGD, whose law is one of r^4, and 1 / (2 eta lambda) for AdamW, whose law is one of r^2.

    Args:
        training: the optimizer's settings.

    Returns:
        `relaxation_steps` or `relaxation_steps_adam`: infinite without decay. None where a setting that decides it is not known, or
        where there is no law (see `lacks_law`).

    Reference: our derivation.

    Example:
        >>> round(relaxation_of(TrainingEvidence(optimizer="adamw", learning_rate=1e-3, weight_decay=0.5)), 1)
        999.7
    """
    decay, eta = training.weight_decay, training.learning_rate
    # As torch takes it: only AdamW decays unless told otherwise.
    if decay == 0.0 or (decay is None and training.optimizer != "adamw"):
        return math.inf
    if eta is None or decay is None or lacks_law(training):
        return None
    law = relaxation_steps_adam if is_adam(training) else relaxation_steps
    return float(law(learning_rate=eta, weight_decay=decay))


def stage_of(training: TrainingEvidence) -> Stage | None:
    """Return whether the norms still grew at the end, or weight decay had balanced growth; None where the settings do not tell.

    Equilibrium is a training longer than its relaxation time (see `relaxation_of`). Where decay is lazy that time counts visits, so
    the answer is that of rows visited at every step.

    Args:
        training: the optimizer's settings; missing ones may leave it open.

    Returns:
        The stage.

    Reference: our derivation.

    Example:
        >>> stage_of(TrainingEvidence(optimizer="adamw", learning_rate=1e-5, weight_decay=0.01, steps=10))
        'growth'
    """
    relaxation = relaxation_of(training)
    if relaxation == math.inf:
        return "growth"
    if relaxation is None or training.steps is None:
        return None
    return "equilibrium" if training.steps > relaxation else "growth"


def equilibrium_reached(training: TrainingEvidence) -> bool:
    """Return whether weight decay is known to have had the time to balance growth.

    Example:
        >>> equilibrium_reached(TrainingEvidence(optimizer="sgd", learning_rate=0.1, weight_decay=0.02, steps=1000))
        True
    """
    return stage_of(training) == "equilibrium"


def stage_words(training: TrainingEvidence) -> str:
    """Return the reason for `stage_of` in words, or what an answer lacks; nothing where there is no decay.

    Example:
        >>> stage_words(TrainingEvidence(optimizer="adamw", weight_decay=0.01, steps=10))
        'learning rate not given: whether weight decay had balanced growth cannot be told'
    """
    relaxation = relaxation_of(training)
    if relaxation == math.inf:
        return ""
    settings = {"weight decay": training.weight_decay, "learning rate": training.learning_rate, "steps": training.steps}
    if relaxation is None or training.steps is None:
        missing = ", ".join(name for name, value in settings.items() if value is None)
        return lacks_law(training) or f"{missing} not given: whether weight decay had balanced growth cannot be told"
    times = training.steps / relaxation
    time = f"the {relaxation:,.0f} {'visits' if training.lazy else 'steps'}, {'1/(2' if is_adam(training) else '1/(4'} eta lambda),"
    words = f"{training.steps:,} steps are {times:.2g} times {time} in which weight decay balances growth"
    if times <= 1.0:
        return f"{words}: the norms still grew"
    return words + (f"; rows visited at less than {1.0 / times:.2g} of the steps still grew" if training.lazy else "")


def frequency_limit(training: TrainingEvidence) -> str:
    """Return up to which visit rate Adam's law lets the norm follow frequency, in words; nothing where the law has no such limit.

    Equation: r^2 grows as f / (f + 1 - beta2) at dense updates, see `visit_factor`: flat for f >> 1 - beta2.

    Args:
        training: the optimizer's settings; beta2 is taken to be .999 where it is not given.

    Returns:
        A clause; empty for SGD and for lazy updates.

    Reference: our derivation.

    Example:
        >>> frequency_limit(TrainingEvidence(optimizer="adamw", beta2=0.98))
        'under Adam frequency can be written only below visit rates of about 1 - beta2 = 0.02: above, the law does not give it'
    """
    if not is_adam(training) or training.lazy:
        return ""
    knee = f"1 - beta2 = {1.0 - _beta2(training):.3g}" + (f" (beta2 {USUAL_BETA2} assumed)" if training.beta2 is None else "")
    return f"under Adam frequency can be written only below visit rates of about {knee}: above, the law does not give it"


def memory_words(training: TrainingEvidence) -> str:
    """Return a warning where Adam's second moment still remembers the start of training; nothing where it does not.

    Equation: the share of the start in it is beta2^T. Gradients of the start are mostly larger (nothing is learned yet, and grad = g / r is
    large for a short vector), so later steps are scaled down, and longest where visits are rare: norms stay below the law and follow
    frequency far above 1 - beta2, of which the law, made for gradients of one size, knows nothing.

    Args:
        training: the optimizer's settings; beta2 is taken to be .999 where it is not given.

    Returns:
        A clause; empty for SGD, for lazy updates, where steps are not known, and after five memories of 1 / (1 - beta2) steps.

    Reference: our derivation and simulation.

    Example:
        >>> memory_words(TrainingEvidence(optimizer="adam", steps=10_000))
        ''
    """
    if not is_adam(training) or training.lazy or training.steps is None:
        return ""
    memory = 1.0 / (1.0 - _beta2(training))
    if training.steps >= MEMORIES * memory:
        return ""
    return (
        f"Adam's second moment remembers about 1/(1 - beta2) = {memory:,.0f} steps, and {training.steps:,} are fewer than {MEMORIES} "
        "times that: larger gradients of the start still scale its steps down, so norms stay below the law, rarely visited rows most"
    )


def _beta2(training: TrainingEvidence) -> float:
    return USUAL_BETA2 if training.beta2 is None else training.beta2
