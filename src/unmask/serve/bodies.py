"""Request bodies, validated before anything else reads them."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from ..run import Sampling

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Steps = Annotated[int, Field(ge=1, description="Grid steps, for samplers that use a grid.")]
Text = Annotated[str, Field(max_length=1 << 18)]
Stop = Annotated[str, Field(max_length=256)]
_Item = TypeVar("_Item")
Items = Annotated[list[_Item], Field(fail_fast=True)]
"""Validation stops at the first wrong item: naming each of a million takes seconds."""
Several = Annotated[list[_Item], Field(fail_fast=True, max_length=1 << 12)]
"""A list of lists, few enough to be validated in no time."""
Tokens = Items[Annotated[int, Field(ge=0)] | None]
"""Token ids; null marks a gap."""


class Body(BaseModel):
    """Base class of all bodies: unknown fields are an error."""

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
    """None: a new seed, which the response reports."""

    def sampling(self, seed: int, masked: int, label: int | None = None) -> Sampling:
        """The model's sampling settings; `steps` defaults to the number of tokens to fill, at most 64."""
        return Sampling(
            sampler=self.sampler,
            steps=self.steps or max(1, min(64, masked)),
            grid=self.grid,
            seed=seed,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            label=label,
            guidance=self.guidance,
        )


class StreamOptions(Body):
    """OpenAI's `stream_options`."""

    include_usage: bool = False


class CompletionBody(How):
    """OpenAI's `POST /v1/completions`, with sampling options."""

    model: str
    prompt: Text | Items[Text] | Items[int] | Several[Items[int]] = ""
    suffix: Text | None = Field(None, description="Text after the gap that the completion fills.")
    max_tokens: Annotated[int, Field(ge=1)] = Field(16, description="Number of tokens in the gap.")
    n: Annotated[int, Field(ge=1)] = 1
    stop: Stop | Annotated[Items[Stop], Field(max_length=4)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    echo: bool = Field(False, description="Return the prompt before the completion.")
    user: str | None = Field(None, description="Ignored.")
    best_of: Literal[1] | None = None
    logprobs: None = Field(None, description="Not supported: tokens are not drawn from left to right.")
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    presence_penalty: Literal[0] = 0
    frequency_penalty: Literal[0] = 0

    @field_validator(
        *("prompt", "max_tokens", "temperature", "n", "stream", "echo", "presence_penalty", "frequency_penalty"),
        mode="before",
    )
    @classmethod
    def _default(cls, value: Any, info: ValidationInfo) -> Any:
        """As in OpenAI's API, null means the default."""
        return cls.model_fields[str(info.field_name)].default if value is None else value

    @field_validator("presence_penalty", "frequency_penalty", mode="before")
    @classmethod
    def _neutral(cls, value: Any) -> Any:
        return 0 if value == 0 else value

    def stops(self) -> list[str]:
        """The strings at which the text ends."""
        found = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return [text for text in found if text]


class TokensBody(Body):
    """A text to tokenize."""

    model: str
    text: Text
    gaps: bool = Field(False, description="Whether `____` and `[MASK:5]` mark gaps, whose tokens are null.")


class TextBody(Body):
    """Tokens to convert to text."""

    model: str
    tokens: Annotated[Tokens, Field(max_length=1 << 16)]


class TrajectoryBody(How):
    """Tokens with gaps (null) to fill, in rows of the model's shape."""

    model: str
    tokens: Annotated[Tokens, Field(min_length=1)]
    """A flat list, also for images."""
    n: Annotated[int, Field(ge=1)] = 1
    label: int | None = None


class AlternativesBody(Body):
    """A partly masked row and a position in it."""

    model: str
    tokens: Annotated[Tokens, Field(min_length=1)]
    place: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=50)] = 8
    token: Annotated[int, Field(ge=0)] | None = Field(None, description="Always in the response, however rare.")
    label: int | None = None


class ScoreBody(Body):
    """A text to score."""

    model: str
    text: Annotated[Text, Field(min_length=1)]
    draws: Annotated[int, Field(ge=1, le=64)] = 8
    repeats: Annotated[int, Field(ge=2, le=16)] = 4
    seed: Seed = 0
