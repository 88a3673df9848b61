"""Render templates with inlined styles and scripts into one HTML document without dependencies.

The content security policy of the document allows its own script by hash and no requests. So markup that slipped past
the escaping could neither run nor send data.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from regard.errors import UserError

TEMPLATES = Path(__file__).parent / "templates"


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Jinja environment of these folders and this package's; everything is escaped unless it is Markup."""
    loader = jinja2.FileSystemLoader([*folders, TEMPLATES])
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def read_sources(env: jinja2.Environment, names: Iterable[str]) -> str:
    """Concatenate files that are inlined unchanged."""
    assert env.loader is not None
    return "\n".join(env.loader.get_source(env, name)[0] for name in names)


def embed_json(value: Any) -> Markup:
    """JSON for <script type="application/json">, with '<', '>' and '&' escaped."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UserError(f"the page's data cannot be written as JSON ({error}); expected plain finite values") from error
    return Markup(text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}))


def render_document(
    template: str, *, folders: tuple[Path, ...] = (), css: list[str], js: list[str], **context: Any
) -> str:
    """Render a page with its styles and scripts inlined.

    Args:
        template: Name of the template.
        folders: Folders of templates, before this package's.
        css: Names of style sheets.
        js: Names of scripts, which share one scope.
        **context: Variables of the template.
    """
    env = environment(*folders)
    script = '"use strict";\n(() => {\n' + read_sources(env, js) + "\n})();"
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = env.get_template(template).render(
        css=Markup(read_sources(env, css)),
        js=Markup(script),
        script_hash=f"sha256-{script_hash}",
        embed=embed_json,
        **context,
    )
    # A lone surrogate (half a character, from broken JSON) cannot be encoded as UTF-8; it becomes "?".
    return html.encode("utf-8", "replace").decode("utf-8")
