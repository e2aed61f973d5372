"""What requests may say, checked before anything else looks at it."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from ..run import Sampling

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Steps = Annotated[int, Field(ge=1, description="Of the grid, for samplers that walk along one.")]
Text = Annotated[str, Field(max_length=1 << 18)]
Stop = Annotated[str, Field(max_length=256)]
_Item = TypeVar("_Item")
Items = Annotated[list[_Item], Field(fail_fast=True)]
"""One wrong item is enough: to name each of a million takes seconds."""
Tokens = Items[Annotated[int, Field(ge=0)] | None]
"""Null where there is a gap."""


class Body(BaseModel):
    """Of any request: unknown fields are a mistake, and said so."""

    model_config = ConfigDict(extra="forbid")


class How(Body):
    """How to sample; see `unmask samplers`."""

    sampler: str | None = None
    steps: Steps | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    guidance: Annotated[float, Field(ge=0, le=100)] | None = None
    grid: Literal["uniform", "cosine"] | None = None
    seed: Seed | None = None
    """None: a new one, which the answer names."""

    def sampling(self, seed: int, masked: int, label: int | None = None) -> Sampling:
        """As the model takes it; as many steps as there are tokens to fill unless it says otherwise, 64 at most."""
        return Sampling(
            sampler=self.sampler,
            steps=self.steps or max(1, min(64, masked)),
            grid=self.grid,
            seed=seed,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=None if self.top_p == 1 else self.top_p,
            label=label,
            guidance=self.guidance,
        )


class StreamOptions(Body):
    """OpenAI's."""

    include_usage: bool = False


class CompletionBody(How):
    """OpenAI's `POST /v1/completions`, and how to sample."""

    model: str
    prompt: Text | Items[Text] | Items[int] | Items[Items[int]] = ""
    suffix: Text | None = Field(None, description="What follows the gap: the completion fills what lies between.")
    max_tokens: Annotated[int, Field(ge=1)] = Field(16, description="Tokens of the gap.")
    n: Annotated[int, Field(ge=1)] = 1
    stop: Stop | Annotated[Items[Stop], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    echo: bool = Field(False, description="Give the prompt back before the completion.")
    user: str | None = Field(None, description="Ignored.")
    best_of: Literal[1] | None = None
    logprobs: None = Field(None, description="Not defined here: tokens are not drawn from left to right.")
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0

    @field_validator(
        *("prompt", "max_tokens", "temperature", "n", "stream", "echo", "presence_penalty", "frequency_penalty"),
        mode="before",
    )
    @classmethod
    def _default(cls, value: Any, info: ValidationInfo) -> Any:
        """Null is OpenAI's word for the default."""
        return cls.model_fields[str(info.field_name)].default if value is None else value

    @field_validator("presence_penalty", "frequency_penalty", mode="before")
    @classmethod
    def _neutral(cls, value: Any) -> Any:
        return 0 if value == 0 else value

    def stops(self) -> list[str]:
        """Where the text ends, were they to appear."""
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in found if text]


class TokensBody(Body):
    """A text to be read as tokens."""

    model: str
    text: Text
    gaps: bool = Field(False, description="Whether `____` and `[MASK:5]` stand for gaps: their tokens are null.")


class TextBody(Body):
    """Tokens to be read as a text."""

    model: str
    tokens: Annotated[Tokens, Field(max_length=1 << 16)]


class TrajectoryBody(How):
    """Tokens with gaps (null) to fill, in rows of the model's shape."""

    model: str
    tokens: Annotated[Tokens, Field(min_length=1)]
    """Flat, also for pictures."""
    n: Annotated[int, Field(ge=1)] = 1
    label: int | None = None


class AlternativesBody(Body):
    """A state and a place in it."""

    model: str
    tokens: Annotated[Tokens, Field(min_length=1)]
    place: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=50)] = 8
    token: Annotated[int, Field(ge=0)] | None = Field(None, description="Is among the answers however rare it is.")
    label: int | None = None


class ScoreBody(Body):
    """A text to be scored."""

    model: str
    text: Annotated[Text, Field(min_length=1)]
    draws: Annotated[int, Field(ge=1, le=64)] = 8
    repeats: Annotated[int, Field(ge=2, le=16)] = 4
    seed: Seed = 0
