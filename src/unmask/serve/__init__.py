"""Models over HTTP: OpenAI's completions API, step-by-step trajectories, scores, metrics and a browser studio."""

from .app import application
from .engine import Limits

__all__ = ["Limits", "application"]
