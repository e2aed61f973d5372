"""Models over HTTP: OpenAI's completions, trajectories step by step, scores, figures, and a studio in the browser."""

from .app import application
from .engine import Limits

__all__ = ["Limits", "application"]
