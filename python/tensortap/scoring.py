"""tap.mismatch(): how far the token probabilities of a rollout and of its trainer differ, and why."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Literal

from tensortap import _core
from tensortap.html_table import html_table


@dataclass(frozen=True)
class ScoredToken:
    """A token that the rollout drew, with its log-probability in both runs."""

    request: str
    position: int
    token: int
    rollout: float
    trainer: float


class RolloutMismatch:
    """What `tap.mismatch` found. Printing it prints what `ttap mismatch` prints.

    Attributes
    ----------
    level : "normal", "noticeable" or "faulty"
        By the mean difference of probabilities: below 0.005, up to 0.01, beyond; faulty, too, with a cause.
    causes : list of str
        Why, the most certain first.
    measures : dict
        As `ttap mismatch --json` names them: `mean_abs_probability`, `k3`, …
    tokens, worst : list of ScoredToken
        All that both runs score, and those that differ most.
    """

    def __init__(self, core: _core.Mismatch) -> None:
        self._core = core
        self._json: dict[str, Any] = json.loads(core.json())
        self.level: Literal["normal", "noticeable", "faulty"] = self._json["level"]
        self.sentence: str = self._json["sentence"]
        self.causes: list[str] = self._json["causes"]
        self.measures: dict[str, float] = {name: _number(value) for name, value in self._json["measures"].items()}
        self.tokens: list[ScoredToken] = [_token(one) for one in self._json["tokens"]]
        self.worst: list[ScoredToken] = [_token(one) for one in self._json["worst"]]

    def __repr__(self) -> str:
        return f"<RolloutMismatch {self.sentence}>"

    def __str__(self) -> str:
        return self._core.text()

    def _repr_html_(self) -> str:
        rows = [(one.request, one.position, one.token, one.rollout, one.trainer) for one in self.worst]
        titles = ("request", "position", "token", "log p rollout", "log p trainer")
        return html_table(self.sentence, titles, rows, len(self.tokens))

    def to_json(self) -> dict[str, Any]:
        """Everything, as `ttap mismatch --json` prints it."""
        return self._json

    def write_plot(self, path: str | os.PathLike[str]) -> None:
        """A picture as SVG: the probabilities of both, and the log-ratio along the texts."""
        self._core.write_plot(os.fspath(path))


def mismatch(
    rollout: str | os.PathLike[str],
    trainer: str | os.PathLike[str],
    *,
    rank: str = "",
    rollout_logits: str = "",
    trainer_logits: str = "",
    ratio: float = 1.2,
    worst: int = 10,
    cause: bool = True,
    threads: int = 0,
) -> RolloutMismatch:
    """How far the probabilities of a rollout's tokens differ from the trainer's, and why, as `ttap mismatch` says it.

    Parameters
    ----------
    rollout, trainer
        The run that generated the texts, and the run of the model that is trained on them.
    rank
        Which rank of each, where they have several: "0", or "0:1".
    rollout_logits, trainer_logits
        Keys of the logits; the last result that is as wide as the vocabulary unless given.
    ratio
        Tokens whose probabilities differ by more than this factor are counted.
    worst
        How many tokens are listed, and looked at for the cause.
    cause
        Whether to compare the models, too.
    """
    return RolloutMismatch(
        _core.mismatch(
            os.fspath(rollout), os.fspath(trainer), rank, rollout_logits, trainer_logits, ratio, worst, cause, threads
        )
    )


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _token(one: dict[str, Any]) -> ScoredToken:
    return ScoredToken(one["request"], one["position"], one["token"], float(one["rollout"]), float(one["trainer"]))
