"""Temperature tau > 0, which divides the score: fixed, learned on a log scale, or matched to the stage before."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from normwise.core.config import TemperatureConfig
from normwise.core.errors import InputError, WorkError
from normwise.core.shapes import Float
from normwise.core.similarity import Similarity
from normwise.objectives.carried import carry, look_again, restore
from normwise.objectives.scores import full_precision, without_autocast

# The scale's logarithm is added to the log scores, hence a bias; and the name has to hold "bias": transformers' Trainer
# keeps weight decay away from parameters by name (`get_decay_parameter_names`), and decay would pull tau towards 1.
PARAMETER = "temperature_bias"


class Temperature(Protocol):
    """What a loss needs of its temperature."""

    mode: str

    def current(self) -> Tensor:
        """Tau now, a detached scalar."""
        ...

    def divide(self, scores: Tensor) -> Tensor:
        """Logits: scores / tau, with the gradient of tau where it is learned."""
        ...


class FixedTemperature(nn.Module):
    """A temperature that stays: z = s / tau.

    Args:
        value: tau > 0.

    Example:
        >>> FixedTemperature(0.5).divide(torch.tensor([1.0]))
        tensor([2.])
    """

    mode = "fixed"

    def __init__(self, value: Real | float) -> None:
        super().__init__()
        self.value = _positive("temperature", value)

    def current(self) -> Tensor:
        """Tau, a scalar of float64."""
        return torch.tensor(self.value, dtype=torch.float64)

    def divide(self, scores: Tensor) -> Tensor:
        """Logits s / tau at full precision."""
        with without_autocast(scores):
            return full_precision(scores) / self.value

    def extra_repr(self) -> str:
        """Both readings of the number."""
        return f"temperature={self.value:g}, scale={1 / self.value:g}"


class LearnableTemperature(nn.Module):
    """A temperature learned on a log scale: z = s exp(b), b = log(1/tau), kept within minimum..maximum.

    The parameter b lives **on the wrapped model** (as `temperature_bias`): there the trainer zeroes its gradient, the
    optimizer takes it once and without weight decay, and DDP keeps it equal between processes. It never reaches the
    model's `state_dict` nor its folder. Checkpoints carry it in the optimizer's state, from where it comes back before the
    first batch after a resume (`carried`), or through `temperature_state` and `load_temperature_state`.
    b is pulled back onto the bounds before each use, so that it cannot get stuck outside of them.

    Args:
        model: the wrapped model; a learnable temperature that it already carries is replaced.
        config: mode `learnable` with value, minimum and maximum.
    """

    mode = "learnable"

    def __init__(self, model: nn.Module, config: TemperatureConfig) -> None:
        super().__init__()
        if config.mode != "learnable" or config.value is None:
            raise InputError(f"temperature of mode learnable with a value was expected, got mode {config.mode!r}")
        self.minimum, self.maximum = config.minimum, config.maximum
        anchor = next((p for p in model.parameters() if p is not model._parameters.get(PARAMETER)), None)
        start = torch.tensor(-math.log(config.value), dtype=torch.float32, device=None if anchor is None else anchor.device)
        parameter = nn.Parameter(start)
        _attach(model, parameter)
        carry(parameter)
        # In a tuple, so that neither is registered here: the parameter would be counted twice.
        self._held = (model, parameter)

    @property
    def parameter(self) -> nn.Parameter:
        """The parameter b = log(1/tau) on the model.

        Raises:
            WorkError: another learnable temperature has taken its place, or it was removed.
        """
        model, parameter = self._held
        if model._parameters.get(PARAMETER) is not parameter:
            raise WorkError(
                "this loss's learnable temperature is no longer on the model (removed, or replaced by a newer loss): build the loss anew"
            )
        return parameter

    def current(self) -> Tensor:
        """Tau within its bounds, a detached scalar of float32."""
        return torch.exp(-self._clamped(self.parameter.detach().float()))

    def divide(self, scores: Tensor) -> Tensor:
        """Logits s / tau at full precision, with the gradient of b."""
        parameter = self.parameter
        restore(parameter, bounds=self._bounds)
        with without_autocast(scores):
            if torch.is_grad_enabled() and parameter.requires_grad:
                with torch.no_grad():
                    parameter.copy_(self._clamped(parameter))
                return full_precision(scores) * parameter.float().exp()
            return full_precision(scores) / self.current()

    @property
    def _bounds(self) -> tuple[float, float]:
        return -math.log(self.maximum), -math.log(self.minimum)

    def _clamped(self, bias: Tensor) -> Tensor:
        return bias.clamp(*self._bounds)

    def extra_repr(self) -> str:
        """Both readings of the number, and its bounds."""
        tau = float(self.current())
        return f"temperature={tau:g}, scale={1 / tau:g}, learnable within {self.minimum:g}..{self.maximum:g}"


def _attach(model: nn.Module, parameter: nn.Parameter) -> None:
    fresh = PARAMETER not in model._parameters
    model.register_parameter(PARAMETER, parameter)
    if not fresh:
        return
    model.register_state_dict_post_hook(_leave_out_of_state)
    model.register_load_state_dict_post_hook(_after_load)
    model.register_forward_hook(_show_to_ddp)


def _leave_out_of_state(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    state.pop(prefix + PARAMETER, None)


def _after_load(module: nn.Module, incompatible_keys: Any) -> None:
    # The trainer loads checkpoints and best models strictly, from folders that rightly lack this parameter.
    missing = incompatible_keys.missing_keys
    missing[:] = [key for key in missing if key != PARAMETER and not key.endswith("." + PARAMETER)]
    parameter = module._parameters.get(PARAMETER)
    if parameter is not None:
        look_again(parameter)


def _show_to_ddp(module: nn.Module, arguments: Any, output: Any) -> Any:
    # DDP with find_unused_parameters (the trainer's default for such models) walks back from the outputs of the forward
    # pass; a parameter that only the loss uses would be taken for unused, and its gradient be an error.
    parameter = module._parameters.get(PARAMETER)
    if parameter is not None and isinstance(output, dict) and module.training and torch.is_grad_enabled():
        output[PARAMETER] = parameter * 1.0
    return output


def remove_learnable_temperature(model: nn.Module) -> bool:
    """Take the learnable temperature off a model, at the end of a stage.

    Args:
        model: the model that a loss with a learnable temperature wrapped (not its DDP wrapper).

    Returns:
        Whether there was one.
    """
    if PARAMETER not in model._parameters:
        return False
    del model._parameters[PARAMETER]
    for hooks in (model._state_dict_hooks, model._load_state_dict_post_hooks, model._forward_hooks):
        for key in [key for key, hook in hooks.items() if hook in (_leave_out_of_state, _after_load, _show_to_ddp)]:
            del hooks[key]
    return True


def build_temperature(model: nn.Module, config: TemperatureConfig) -> FixedTemperature | LearnableTemperature:
    """The temperature that a config asks for.

    Raises:
        InputError: mode `match`, which has to be measured first (`matched_temperature`).
    """
    if config.mode == "learnable":
        return LearnableTemperature(model, config)
    if config.value is None:
        raise InputError("temperature of mode match has no value yet: measure it with matched_temperature, then pass the number")
    return FixedTemperature(config.value)


def temperature_state(loss: Any) -> dict[str, Any]:
    """Everything of a loss that a checkpoint has to keep, as plain values for a JSON side file.

    Args:
        loss: a `FocalEmbeddingLoss`.

    Returns:
        `{"mode", "temperature", "bias", "draws"}`: bias is the raw parameter log(1/tau) of a learnable temperature (else
        None), draws the number of random permutations drawn so far (weighting random).
    """
    temperature = loss.temperature
    bias = float(temperature.parameter.detach()) if temperature.mode == "learnable" else None
    return {"mode": temperature.mode, "temperature": float(temperature.current()), "bias": bias, "draws": loss.draws}


def load_temperature_state(loss: Any, state: dict[str, Any]) -> None:
    """Restore what `temperature_state` gave, bit for bit, into a loss with the same settings.

    Args:
        loss: a `FocalEmbeddingLoss`.
        state: the saved values.

    Raises:
        InputError: keys are missing, the modes differ, or a fixed temperature differs from the saved one.
    """
    temperature = loss.temperature
    absent = sorted({"mode", "temperature", "bias", "draws"} - set(state))
    if absent:
        raise InputError(f"temperature state lacks {', '.join(absent)}: it was not written by this version; start the stage anew")
    if state["mode"] != temperature.mode:
        raise InputError(f"temperature state is {state['mode']}, the loss {temperature.mode}; resume with the saved settings")
    if temperature.mode == "fixed" and state["temperature"] != float(temperature.current()):
        raise InputError(
            f"temperature state holds {state['temperature']!r}, the loss {float(temperature.current())!r}; resume with the saved settings"
        )
    if temperature.mode == "learnable":
        with torch.no_grad():
            temperature.parameter.fill_(state["bias"])
        look_again(temperature.parameter, given=True)
    loss.draws = int(state["draws"])


def matched_temperature(
    previous_tau: Real | float,
    query_norms: Float[Tensor, " B"],
    candidate_norms: Float[Tensor, " N"],
    *,
    previous: Similarity,
    following: Similarity,
) -> float:
    """Temperature with which the next stage starts from the logits of the stage before.

    A similarity that leaves a side raw has scores larger by that side's norm, so with m(s) = (mean ||q|| if s leaves
    queries raw, else 1) x (mean ||c|| if s leaves candidates raw, else 1):

        tau_next = tau_previous m(following) / m(previous)

    For cosine -> dot this is tau_2 = tau_1 mean ||q|| mean ||c||. Logits are equal exactly where the norms on each side are constant.

    Args:
        previous_tau: temperature at the end of the stage before, > 0.
        query_norms: (B,) norms of raw query vectors of a calibration batch.
        candidate_norms: (N,) norms of raw candidate vectors.
        previous: similarity of the stage before.
        following: similarity of the stage to come.

    Raises:
        InputError: norms that are empty, not finite, or all zero; a temperature that is not positive.

    Reference:
        PACE (arXiv 2609.15152) sets tau_2 = 100 by hand, which is this rule for norms near sqrt(1024).

    Example:
        >>> matched_temperature(0.1, torch.tensor([2.0, 4.0]), torch.tensor([5.0]), previous=Similarity.COSINE, following=Similarity.DOT)
        1.5
    """
    tau = _positive("previous_tau", previous_tau)
    sides = {"query_norms": query_norms, "candidate_norms": candidate_norms}
    means = {}
    for name, values in sides.items():
        mean = float(values.double().mean()) if values.numel() else 0.0
        if not 0 < mean < math.inf:
            raise InputError(
                f"{name}: at least one positive norm and only finite ones were expected, their mean is {mean}: check the calibration batch"
            )
        means[name] = mean

    def magnitude(similarity: Similarity) -> float:
        query = 1.0 if similarity.normalizes_query else means["query_norms"]
        return query if similarity.normalizes_candidate else query * means["candidate_norms"]

    return tau * (magnitude(following) / magnitude(previous))


def _positive(name: str, value: Real | float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InputError(f"{name} must be a finite number > 0, got {value!r}: it divides the scores (0.05 is scale 20)")
    return float(value)
