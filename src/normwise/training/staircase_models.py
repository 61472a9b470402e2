"""The two networks of the staircase, several seeds of one in a single computation: feed-forward, and one layer of attention.

Axes: S seeds, V vocabulary, Y labels, d width, N sequences, L length. No biases, norms or residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from torch import nn

from normwise.core.errors import InputError
from normwise.theory.sequence_law import SequenceLaw

# relu, identity, or a power K >= 1.
Activation = Literal["relu", "identity"] | int
TableKind = Literal["trained", "fixed", "signature"]
# Streams of one seed: weights are the same whatever else is drawn.
_WEIGHTS, _SIGNATURE = 0, 2


@dataclass(frozen=True)
class StairInit:
    """Sizes and init of a network: entries of E and U are N(0, d^(-2 gamma)), those of another matrix N(0, inputs^(-2 gamma)).

    Args:
        seeds: one network each; S of them.
        width: d >= 1.
        gamma: above 1/2 is a small init, and larger is smaller.

    Raises:
        InputError: no seed, one that is there twice, or a width below 1.

    Example:
        >>> round(StairInit(seeds=(0,)).scale(), 4)
        0.0206
    """

    seeds: Sequence[int]
    width: int = 128
    gamma: float = 0.8

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or self.width < 1:
            raise InputError(f"seeds are {list(self.seeds)} and width is {self.width}; expected different seeds, and a width of at least 1")

    def scale(self, inputs: int | None = None) -> float:
        """Standard deviation of an entry: inputs^-gamma; d^-gamma where inputs is left out."""
        return float((self.width if inputs is None else inputs) ** -self.gamma)

    def draw(self, *shapes: tuple[int, int], inputs: Sequence[int | None]) -> list[torch.Tensor]:
        """Return one (S, rows, columns) tensor per shape, each seed from its own generator, in the order given."""
        drawn = []
        for seed in self.seeds:
            random = np.random.default_rng([seed, _WEIGHTS])
            drawn.append([self.scale(size) * random.normal(size=shape) for shape, size in zip(shapes, inputs, strict=True)])
        return [torch.as_tensor(np.stack(rows), dtype=torch.float32) for rows in zip(*drawn, strict=True)]


@final
class TokenTable(nn.Module):
    """E = lambda times rows: rows are trained and lambda is 1, or rows are fixed, and lambda is 1 or trained, one for each seed.

    Args:
        rows: (S, V, d).
        train_rows: whether gradients reach the rows.
        scale: start of a trained lambda; None where lambda is 1.
    """

    def __init__(self, rows: torch.Tensor, *, train_rows: bool = True, scale: float | None = None) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows, requires_grad=train_rows)
        self.scale = None if scale is None else nn.Parameter(torch.full((rows.shape[0], 1, 1), scale))

    def forward(self) -> torch.Tensor:
        """Return E (S, V, d)."""
        return self.rows if self.scale is None else self.scale * self.rows


@final
class FeedForwardNet(nn.Module):
    """f(X) = U sigma(sum_i e_{x_i}).

    Args:
        table: E of S seeds.
        unembedding: (S, Y, d).
        activation: sigma, elementwise.

    Raises:
        InputError: a power below 1 or another name.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.
    """

    reads_order = False

    def __init__(self, table: TokenTable, unembedding: torch.Tensor, *, activation: Activation = "relu") -> None:
        super().__init__()
        self.table, self.unembedding = table, nn.Parameter(unembedding)
        self._sigma = _activation(activation)

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return how often each token stands in each sequence, (.., V): the sum of embeddings is then one product."""
        counts = torch.zeros(*tokens.shape[:-1], self.table.rows.shape[1], dtype=self.unembedding.dtype)
        return counts.scatter_add_(-1, tokens, torch.ones(tokens.shape, dtype=counts.dtype))

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Return logits (S, N, Y) of counts (N, V) or (S, B, V)."""
        rows = self.table()
        counts = sequences if sequences.ndim == 3 else sequences.expand(len(rows), -1, -1)
        return self._sigma(counts @ rows) @ self.unembedding.transpose(1, 2)

    def token_attention(self, law: SequenceLaw) -> np.ndarray | None:
        """None: all tokens of a sequence weigh the same."""
        return None


@final
class AttentionNet(nn.Module):
    """One layer of attention whose last position reads out.

    Equations: W_QK = W_K^T W_Q, W_OV = W_O W_V, a_s = softmax_s(e_{x_s}^T W_QK e_{x_L} / sqrt d), f(X) = U W_OV sum_s a_s e_{x_s}.

    Args:
        table: E of S seeds.
        unembedding: (S, Y, d).
        query: (S, k, d) W_Q.
        key: (S, k, d) W_K.
        value: (S, k, d) W_V.
        output: (S, d, k) W_O.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315.
    """

    reads_order = True

    def __init__(
        self,
        table: TokenTable,
        unembedding: torch.Tensor,
        *,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        output: torch.Tensor,
    ) -> None:
        super().__init__()
        self.table, self.unembedding = table, nn.Parameter(unembedding)
        self.query, self.key, self.value, self.output = (nn.Parameter(each) for each in (query, key, value, output))

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the tokens as they are."""
        return tokens

    def weights(self, sequences: torch.Tensor) -> torch.Tensor:
        """Return the attention a (S, N, L) of the last position to all."""
        rows = self.table()
        scores = (rows @ self.key.transpose(1, 2)) @ (rows @ self.query.transpose(1, 2)).transpose(1, 2) / rows.shape[2] ** 0.5
        tokens = sequences if sequences.ndim == 3 else sequences.expand(len(rows), -1, -1)
        # A score belongs to a pair of tokens, whatever sequences the pair stands in.
        places = tokens * rows.shape[1] + tokens[:, :, -1:]
        return scores.flatten(1).gather(1, places.flatten(1)).view(places.shape).softmax(dim=2)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Return logits (S, N, Y) of tokens (N, L) or (S, B, L)."""
        rows, attention = self.table(), self.weights(sequences)
        tokens = sequences.expand(attention.shape)
        mixed = torch.zeros(*attention.shape[:2], rows.shape[1], dtype=rows.dtype).scatter_add(2, tokens, attention)
        read = rows @ self.value.transpose(1, 2) @ self.output.transpose(1, 2) @ self.unembedding.transpose(1, 2)
        return mixed @ read

    def token_attention(self, law: SequenceLaw) -> np.ndarray:
        """Return E[a_I | x_I = a] (S, V), I a position drawn at random: 1/L for all at init, nearly; NaN for tokens that never occur."""
        with torch.no_grad():
            attention = self.weights(torch.as_tensor(law.tokens, dtype=torch.int64)).double().numpy()
        weights = np.repeat(law.chances, law.length)
        flat, size = law.tokens.ravel(), law.vocabulary
        mass = np.bincount(flat, weights=weights, minlength=size)
        sums = np.stack([np.bincount(flat, weights=weights * each.ravel(), minlength=size) for each in attention])
        return np.divide(sums, mass, out=np.full(sums.shape, np.nan), where=mass > 0.0)


StairModel = FeedForwardNet | AttentionNet


def feed_forward_net(
    law: SequenceLaw,
    init: StairInit,
    *,
    activation: Activation = "relu",
    table: TableKind = "trained",
    signature: np.ndarray | None = None,
) -> FeedForwardNet:
    """Return feed-forward networks at init.

    Args:
        law: gives V and Y.
        init: seeds, width and gamma. Equal seeds give equal U, and equal E but for the signature table.
        activation: relu, identity, or K for sigma(z) = z^K.
        table: trained; fixed at its random init; or signature, `signature_table`.
        signature: (V, Y', B) label signatures of order 1, for the signature table only.

    Raises:
        InputError: a signature without its table, or the table without one.

    Example:
        >>> from normwise.training.staircase_tasks import modular_task
        >>> law = modular_task(5, vocabulary=9).law
        >>> net = feed_forward_net(law, StairInit(seeds=(0, 1), width=4))
        >>> net(net.read(torch.as_tensor(law.tokens))).shape
        torch.Size([2, 25, 9])
    """
    if (signature is None) == (table == "signature"):
        raise InputError(
            f"table is {table!r} and signature {'absent' if signature is None else 'given'}; expected it for 'signature' alone"
        )
    rows, unembedding = init.draw((law.vocabulary, init.width), (law.labels_known, init.width), inputs=(None, None))
    made = TokenTable(rows, train_rows=table == "trained") if signature is None else signature_table(signature, init)
    return FeedForwardNet(made, unembedding, activation=activation)


def attention_net(law: SequenceLaw, init: StairInit, *, key_width: int = 64) -> AttentionNet:
    """Return one-layer attention networks at init, k = key_width.

    Example:
        >>> from normwise.training.staircase_tasks import modular_task
        >>> law = modular_task(5, vocabulary=9).law
        >>> net = attention_net(law, StairInit(seeds=(0, 1), width=4), key_width=2)
        >>> net(net.read(torch.as_tensor(law.tokens))).shape
        torch.Size([2, 25, 9])
    """
    if key_width < 1:
        raise InputError(f"key_width is {key_width}; expected at least 1")
    d, k = init.width, key_width
    shapes = ((law.vocabulary, d), (law.labels_known, d), (k, d), (k, d), (k, d), (d, k))
    rows, unembedding, query, key, value, output = init.draw(*shapes, inputs=(None, None, d, d, d, k))
    return AttentionNet(TokenTable(rows), unembedding, query=query, key=key, value=value, output=output)


def signature_table(signature: np.ndarray, init: StairInit) -> TokenTable:
    """Return embeddings that point where first-order signatures do: e_a = lambda R phi_a v with random R and v, lambda trained.

    R (d, Y) and v (B,) have standard normal entries. R phi v is divided by its Frobenius norm, so that descent on lambda is descent on E
    along that ray at the same rate, and lambda begins where the rows of tokens that have a signature are as long as trained ones at init.

    Args:
        signature: (V, Y, B) label signatures of order 1.
        init: seeds, width and gamma.

    Reference: Yao, Hang, Xu (2026), arXiv 2608.30315; the start of lambda is ours.
    """
    made = []
    for seed in init.seeds:
        random = np.random.default_rng([seed, _SIGNATURE])
        rows = (signature @ random.normal(size=signature.shape[2])) @ random.normal(size=(signature.shape[1], init.width))
        made.append(rows / np.linalg.norm(rows))
    entries = np.count_nonzero(signature.any(axis=(1, 2))) * init.width
    scale = init.scale() * entries**0.5
    return TokenTable(torch.as_tensor(np.stack(made), dtype=torch.float32), train_rows=False, scale=scale)


def _activation(kind: Activation) -> Callable[[torch.Tensor], torch.Tensor]:
    if kind == "relu":
        return torch.relu
    if kind == "identity":
        return lambda z: z
    if not isinstance(kind, int) or kind < 1:
        raise InputError(f"activation is {kind!r}; expected 'relu', 'identity' or a power of at least 1")
    return lambda z: z**kind
