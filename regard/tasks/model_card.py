"""The model card of a run: what it is, what it was trained on, what it reached, and the command that made it."""

from __future__ import annotations

import json
from typing import Any

from regard.tasks.base import kind


def card(config: dict[str, Any]) -> str:
    settings, data = config["settings"], config["data"]
    model = {k: v for k, v in settings["model"].items() if k != "name"}
    rows = "\n".join(f"| {name} | {value:.4f} |" for name, value in config.get("metrics", {}).items())
    made_for = kind(settings["task"])
    uses = "\n".join(f"    {line}" for line in made_for.uses(config))
    train, machine = data["train"], config["machine"]
    made = (
        f"Trained by regard {config['versions'].get('regard', '')} on {made_for.size(train)} (`{train['name']}`, "
        f"sha256 `{train['fingerprint'][:16]}`), seed {settings['seed']}, {config.get('steps', 0):,} steps, "
        f"{config.get('seconds', 0.0):.0f} seconds on {machine['cpu']} ({machine['cores']} cores), {machine['date']}."
    )
    kept = "The model that was best there is the one kept, so these numbers are a little too good; measure"
    measure = kept if config.get("steps") else "Measure"  # what is fitted at once was not chosen by them
    return f"""---
library_name: regard
tags: [attention, {settings["task"]}, {settings["model"]["name"]}]
---

# {settings["model"]["name"]} for {settings["task"]}

{made}

{made_for.about(config)} Parameters: {config["parameters"]:,}.

## On the validation part ({made_for.size(data["valid"])})

| measure | value |
|---|---|
{rows}

{measure} on data of your own:

{uses}

## Settings

```json
{json.dumps({"model": model, "tokenizer": settings["tokenizer"], "train": settings["train"]}, indent=2)}
```
"""
