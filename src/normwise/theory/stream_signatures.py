"""Signatures of language-model streams: the next token, what came before it, what stands near; documents are never joined."""

from __future__ import annotations

import numpy as np

from normwise.core.errors import InputError
from normwise.theory.signature_sketch import SignatureSketch
from normwise.theory.signatures import Signature, per_token
from normwise.theory.stream_counts import CountPlan, StreamCounts, check_filled, count_parts, whole
from normwise.theory.token_stream import TokenStream, check_window


def next_token_signature(stream: TokenStream, *, of: np.ndarray | None = None, targets: np.ndarray | None = None) -> Signature:
    """Return what follows each token.

    Equation: phi_a^nt(v) = P(x_{s+1} = v | x_s = a), s uniform over the positions whose document goes on.

    Args:
        stream: the documents.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) next tokens v that get a place; None for all V.

    Returns:
        Values (A, C), of order 0; `frequency` is P(x_s = a), `left_out` P(x_{s+1} is not among targets | a). Memory: about 50 bytes a
        token of the stream beside the values, which are held twice.

    Raises:
        InputError: no document has two tokens, an id is out of range or twice there, or the values are above
            `signatures.MOST_VALUES`.

    Reference: Yao, Hang and Xu (2026), the next-token signature.

    Example:
        >>> next_token_signature(TokenStream(np.array([1, 2, 1, 0]), vocabulary=3, end=0)).values.tolist()
        [[0.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    check_window(stream, None)
    return counted_next_token(count_parts([whole(stream)], CountPlan(vocabulary=stream.vocabulary, of=of, targets=targets)))


def presence_signature(
    stream: TokenStream,
    *,
    window: int | None = None,
    of: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    contexts: np.ndarray | None = None,
) -> Signature:
    """Return what follows each token together with what was there before it.

    Equation: phi_a^{y;1}(v, b) = P(x_{s+1} = v, b in X_{<s} | x_s = a), X_{<s} the document before s, or its last `window` tokens.
    A token counts once however often it is there, so that the sum over b is no chance: it is that of x_{s+1} = v times the mean number
    of different tokens in X_{<s}.

    How: each token of the stream is the latest of its kind for one run of positions s; runs of the same token do not overlap, so that
    the work is the number of different contexts over all s, not the number of tokens before them.

    Args:
        stream: the documents.
        window: tokens before s, at least 1; None for all of the document.
        of: (A,) tokens a that get a row; None for all V.
        targets: (C,) next tokens v that get a place; None for all V.
        contexts: (B,) tokens b that get a place; None for all V.

    Returns:
        Values (A, C, B), of order 1; `left_out` is the part of all presences (s, b) of a that fell on other targets or contexts.
        Memory: about 100 bytes a token of the stream beside the values, which are held twice.

    Raises:
        InputError: as `next_token_signature`, or the window is below 1 or longer than every document.

    Reference: Yao, Hang and Xu (2026), the first-order signature of language models; the window is ours.

    Example:
        >>> found = presence_signature(TokenStream(np.array([2, 1, 2, 0]), vocabulary=3, end=0))
        >>> found.values[2].tolist()
        [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    check_window(stream, window)
    plan = CountPlan(
        vocabulary=stream.vocabulary, of=of, targets=targets, contexts=contexts, presence="prefix" if window is None else window
    )
    return counted_presence(count_parts([whole(stream)], plan))


def window_cooccurrence(stream: TokenStream, *, window: int, of: np.ndarray | None = None, contexts: np.ndarray | None = None) -> Signature:
    """Return what stands near each token, on either side.

    Equation: phi_a^1(b) = P(x_J = b | x_I = a), I uniform over positions with another one near, J uniform over the other positions of
    its document at most `window` away. Each I counts the same, however few stand near it. Documents of one length L and a window of
    L - 1 make it the co-occurrence signature of order 1.

    Args:
        stream: the documents.
        window: positions on each side, at least 1.
        of: (A,) tokens a that get a row; None for all V.
        contexts: (B,) tokens b that get a place; None for all V.

    Returns:
        Values (A, B), of order 1; `left_out` is P(x_J is not among contexts | a). Memory: about 90 bytes a token of the stream beside
        2 window A B counts; time grows with T times the window.

    Raises:
        InputError: as `presence_signature`.

    Example:
        >>> window_cooccurrence(TokenStream(np.array([0, 1, 1]), vocabulary=2), window=1).values.tolist()
        [[0.0, 1.0], [0.25, 0.75]]
    """
    check_window(stream, window)
    plan = CountPlan(vocabulary=stream.vocabulary, of=of, contexts=contexts, next_token=False, near=window)
    return counted_cooccurrence(count_parts([whole(stream)], plan))


def counted_next_token(counts: StreamCounts) -> Signature:
    """Return `next_token_signature` from counts.

    Args:
        counts: with next tokens.

    Raises:
        InputError: next tokens were not counted, or no document has two tokens.

    Example:
        >>> stream = TokenStream(np.array([1, 2, 1, 0]), vocabulary=3, end=0)
        >>> counted_next_token(count_parts([whole(stream)], CountPlan(vocabulary=3))).values[1].tolist()
        [0.5, 0.0, 0.5]
    """
    plan = counts.plan
    _check_counted(counts, plan.next_token, "next_token=True")
    return Signature(
        of=plan.rows[0],
        values=per_token(counts.followed, counts.seen),
        frequency=counts.seen / counts.moments,
        left_out=per_token(counts.seen - counts.followed.sum(axis=1), counts.seen),
        targets=plan.nexts[0],
    )


def counted_presence(counts: StreamCounts) -> Signature:
    """Return `presence_signature` from counts.

    Args:
        counts: with presences.

    Raises:
        InputError: presences were not counted, no document has two tokens, or none is as long as the window.
    """
    plan = counts.plan
    _check_counted(counts, plan.presence is not None and plan.befores[0].size, "a presence and contexts")
    return Signature(
        of=plan.rows[0],
        values=per_token(counts.presence, counts.seen),
        frequency=counts.seen / counts.moments,
        left_out=per_token(counts.presences - counts.presence.sum(axis=(1, 2)), counts.presences),
        contexts=plan.befores[0],
        targets=plan.nexts[0],
    )


def counted_sketch(counts: StreamCounts) -> SignatureSketch:
    """Return the presence signature of all contexts of the vocabulary, contracted with the plan's probes.

    Equation: h_{r,a}(v) = sum_b phi_a^{y;1}(v, b) p_r(b), b over the whole vocabulary, also tokens that have no place among contexts.

    Args:
        counts: with a sketch.

    Returns:
        Values (R, A, C); `left_out` is P(x_{s+1} is not among targets | a).

    Raises:
        InputError: nothing was sketched, or as `counted_presence`.
    """
    plan = counts.plan
    _check_counted(counts, plan.probes is not None, "probes")
    return _sketched(counts, counts.sketch)


def counted_pair_sketch(counts: StreamCounts) -> SignatureSketch:
    """Return the second-order signature of all pairs of contexts of the vocabulary, contracted with the plan's pairs of probes.

    Equations: phi_a^{y;2}(v, b, c) = P(x_{s+1} = v, b in X_{<s}, c in X_{<s} | x_s = a) for b != c, and 0 for b = c, X_{<s} as in
    `presence_signature`; h_{r,a}(v) = sum_{b,c} phi_a^{y;2}(v, b, c) p_r(b) q_r(c). A token counts once however often it is there:
    with n different tokens in X_{<s}, probes of ones make h_{r,a}(v) the mean of n (n - 1) 1{x_{s+1} = v}.
    With independent signs (`random_probes` of order 2), E <h_{r,a}, h_{r,b}> = <phi_a, phi_b>_F.

    How: sum_{b != c} p(b) q(c) over X_{<s} is (sum p)(sum q) - sum p q, three running sums for each pair of probes.

    Args:
        counts: with a sketch of pairs.

    Returns:
        Values (R, A, C); `left_out` is P(x_{s+1} is not among targets | a).

    Raises:
        InputError: no pairs were sketched, sums may have passed what int64 holds, or as `counted_presence`.

    Reference: Yao, Hang and Xu (2026) for the first order of language models; its second order and the sketch are ours.

    Example:
        >>> plan = CountPlan(vocabulary=3, presence="prefix", contexts=np.arange(0), pairs=np.ones((1, 2, 3)))
        >>> stream = TokenStream(np.array([2, 1, 0, 0]), vocabulary=3)
        >>> counted_pair_sketch(count_parts([whole(stream)], plan)).values[0, 0].tolist()
        [2.0, 0.0, 0.0]
    """
    plan = counts.plan
    _check_counted(counts, plan.pairs is not None, "pairs")
    most = plan.vocabulary if plan.presence == "prefix" else min(plan.vocabulary, plan.presence or 0)
    if (most - 1) * int(counts.presences.max()) > np.iinfo(np.int64).max:
        raise InputError(
            f"presences of one token come to {counts.presences.max():,} with up to {most:,} different tokens before it; pairs of them may "
            "have passed 64 bits: tell where documents end, or take a window"
        )
    return _sketched(counts, counts.pair_sketch)


def counted_cooccurrence(counts: StreamCounts) -> Signature:
    """Return `window_cooccurrence` from counts.

    Equation: phi_a^1(b) = sum_k near_k(a, b) / k / seen(a): of k positions beside I, J is each with chance 1/k.

    Args:
        counts: with what stands near.

    Raises:
        InputError: it was not counted, no document has two tokens, or none is as long as the window.
    """
    plan = counts.plan
    _check_counted(counts, plan.near is not None, "near")
    seen, sums, left_out = counts.centers.sum(axis=0), np.zeros(counts.near.shape[1:]), np.zeros(plan.rows[0].size)
    for beside, (pairs, centers) in enumerate(zip(counts.near, counts.centers, strict=True), start=1):
        sums += pairs / beside
        left_out += (centers * beside - pairs.sum(axis=1)) / beside
    return Signature(
        of=plan.rows[0],
        values=per_token(sums, seen),
        frequency=seen / counts.positions,
        left_out=per_token(left_out, seen),
        contexts=plan.befores[0],
    )


def _sketched(counts: StreamCounts, sums: np.ndarray) -> SignatureSketch:
    return SignatureSketch(
        of=counts.plan.rows[0],
        targets=counts.plan.nexts[0],
        values=np.moveaxis(per_token(sums, counts.seen), 2, 0),
        frequency=counts.seen / counts.moments,
        left_out=per_token(counts.seen - counts.followed.sum(axis=1), counts.seen),
    )


def _check_counted(counts: StreamCounts, counted: object, needed: str) -> None:
    if not counted:
        raise InputError(f"counts hold no such numbers; expected a plan with {needed}: count again with it")
    check_filled(counts)
