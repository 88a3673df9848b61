"""The model card of a run: what it is, its data, its metrics, and commands to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from regard.tasks.base import get_task


def format_model_card(config: Mapping[str, Any]) -> str:
    """The README.md of a run folder, from its config.json."""
    settings, data = config["settings"], config["data"]
    task, model_name = get_task(settings["task"]), settings["model"]["name"]
    model = {key: value for key, value in settings["model"].items() if key != "name"}
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in config.get("metrics", {}).items())
    commands = "\n".join(f"    {line}" for line in task.usage_commands(config))
    train, machine = data["train"], config["machine"]
    provenance = (
        f"Trained by regard {config['versions'].get('regard', '')} on {task.format_size(train)} (`{train['name']}`, "
        f"sha256 `{train['fingerprint'][:16]}`), seed {settings['seed']}, {config.get('steps', 0):,} steps, "
        f"{config.get('seconds', 0.0):.0f} seconds on {machine['cpu']} ({machine['cores']} cores), {machine['date']}."
    )
    advice = "Measure it on your own data:"
    if config.get("steps"):  # a fitted model has no checkpoints to select from
        advice = "The best checkpoint was selected on these data, so the metrics are slightly optimistic. " + advice
    return f"""---
library_name: regard
tags: [attention, {settings["task"]}, {model_name}]
---

# {model_name} for {settings["task"]}

{provenance}

{task.describe_run(config)} Parameters: {config["parameters"]:,}.

## Validation metrics ({task.format_size(data["valid"])})

| metric | value |
|---|---|
{rows}

{advice}

{commands}

## Settings

```json
{json.dumps({"model": model, "tokenizer": settings["tokenizer"], "train": settings["train"]}, indent=2)}
```
"""
