"""A small decoder-only transformer, and the mean loss of its next tokens without a table of logits.

Axes: B windows, L length, V vocabulary, d width, N = B L predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

# Predictions whose logits are held at a time: of 8,192 words they fill 8 MB, which caches hold; a whole batch is twice as slow.
_CHUNK = 256
_HEAD = 32
_HIDDEN = 4
_ROTARY_BASE = 10_000.0


@final
class StairDecoder(nn.Module):
    """Tokens to the logits of the next ones: f(X) = U n(h), h = e_x + attention and feed-forward layers, each reading n(h).

    Pre-norm: n divides by the root mean square and has a trained gain. Attention is causal, with heads of 32 (one head where d is no
    multiple of it), the feed-forward layers have 4 d units of GELU; there are no biases and no dropout. Positions are rotary: they turn
    queries and keys, so that a row of E holds its token and nothing of a place. E and U are two tables.

    Every matrix starts at N(0, d_in^(-2 gamma)), d for E and U. Under norms a small start of E does not make the forward pass small:
    it makes what the updates add to a row soon larger than what the row started with.

    Args:
        vocabulary: V.
        width: d, even.
        layers: pairs of attention and feed-forward.
        gamma: exponent of the init.
        random: draws the weights.
    """

    def __init__(self, vocabulary: int, *, width: int, layers: int, gamma: float, random: np.random.Generator) -> None:
        super().__init__()

        def drawn(rows: int, inputs: int) -> nn.Parameter:
            return nn.Parameter(torch.as_tensor(random.normal(scale=inputs**-gamma, size=(rows, inputs)), dtype=torch.float32))

        self.embedding, self.unembedding = drawn(vocabulary, width), drawn(vocabulary, width)
        self.layers = nn.ModuleList(
            _Layer(drawn(3 * width, width), drawn(width, width), drawn(_HIDDEN * width, width), drawn(width, _HIDDEN * width))
            for _ in range(layers)
        )
        self.gain = nn.Parameter(torch.ones(width))

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return what U reads, (B, L, d), of tokens (B, L)."""
        states = functional.embedding(tokens, self.embedding)
        turn = _rotary(tokens.shape[1], _head_width(states.shape[2]), states.dtype)
        for layer in self.layers:
            states = layer(states, turn)
        return _normed(states, self.gain)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits (B, L, V) of tokens (B, L); those at a place depend on the tokens up to it."""
        return self.hidden(tokens) @ self.unembedding.T

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean cross-entropy of targets (B, L) in nats."""
        return _MeanLoss.apply(self.hidden(tokens).flatten(0, 1), self.unembedding, targets.flatten())  # type: ignore[no-any-return]

    def judged(self, tokens: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (loss, whether the largest logit is the target's) of the predictions, some at a time."""
        with torch.no_grad():
            size = max(1, _CHUNK // tokens.shape[1])
            for rows, labels in zip(tokens.split(size), targets.split(size), strict=True):
                logits, label = self(rows).flatten(0, 1), labels.flatten()
                losses = functional.cross_entropy(logits, label, reduction="none")
                yield losses.double().numpy(), (logits.argmax(dim=1) == label).numpy()


@final
class _Layer(nn.Module):
    """h + W_o attention(n(h)), then that + W_down gelu(W_up n(.))."""

    def __init__(self, reading: nn.Parameter, output: nn.Parameter, up: nn.Parameter, down: nn.Parameter) -> None:
        super().__init__()
        self.reading, self.output, self.up, self.down = reading, output, up, down
        self.attention_gain, self.feed_gain = (nn.Parameter(torch.ones(len(output))) for _ in range(2))

    def forward(self, states: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        batch, length, width = states.shape
        read = functional.linear(_normed(states, self.attention_gain), self.reading)
        query, key, value = read.view(batch, length, 3, -1, _head_width(width)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(_turned(query, turn), _turned(key, turn), value, is_causal=True)
        states = states + functional.linear(mixed.transpose(1, 2).flatten(2), self.output)
        inner = functional.gelu(functional.linear(_normed(states, self.feed_gain), self.up), approximate="tanh")
        return states + functional.linear(inner, self.down)


class _MeanLoss(torch.autograd.Function):
    """mean_i (log sum_v exp u_v h_i - u_{y_i} h_i) and its gradients in one pass over chunks of i, so that N x V never stands."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, table: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        back, back_table, total = torch.empty_like(states), torch.zeros_like(table), states.new_zeros(())
        held = states.new_empty(min(_CHUNK, len(states)), len(table))
        for low in range(0, len(states), _CHUNK):
            rows, label = states[low : low + _CHUNK], labels[low : low + _CHUNK, None]
            scores = torch.mm(rows, table.T, out=held[: len(rows)])
            largest = scores.amax(dim=1, keepdim=True)
            own = scores.gather(1, label) - largest
            sums = scores.sub_(largest).exp_().sum(dim=1, keepdim=True)
            total += (sums.log() - own).sum()
            # From here on, scores hold the gradient: (softmax - 1 at the label) / N.
            scores.mul_(1.0 / (len(states) * sums)).scatter_add_(1, label, torch.full_like(own, -1.0 / len(states)))
            torch.mm(scores, table, out=back[low : low + _CHUNK])
            back_table.addmm_(scores.T, rows)
        ctx.save_for_backward(back, back_table)
        return total / len(states)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        back, back_table = ctx.saved_tensors
        return grads[0] * back, grads[0] * back_table, None


def _head_width(width: int) -> int:
    return _HEAD if width % _HEAD == 0 else width


def _normed(states: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(states, (states.shape[-1],), gain)


def _rotary(length: int, width: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines (L, width / 2) of position times base^(-2 i / width)."""
    speeds = _ROTARY_BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * speeds
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _turned(rows: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turn each pair (i, i + width / 2) by its angle."""
    (left, right), (cosines, sines) = rows.chunk(2, dim=-1), turn
    return torch.cat([left * cosines - right * sines, left * sines + right * cosines], dim=-1)
