"""Look inside: `record` the weights, `edit` them, explain a prediction by them, and measure whether to believe it."""

from regard.inspect.edit import ablate, edit, hide, uniform
from regard.inspect.record import Call, Recording, attends, record

__all__ = ["Call", "Recording", "ablate", "attends", "edit", "hide", "record", "uniform"]
