"""From templates, styles and scripts to one HTML document that needs nothing else.

The document's content security policy allows its own script by hash and no request to anywhere, so that even markup
that slipped past the escaping could neither run nor call home.
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

HERE = Path(__file__).parent / "templates"


@cache
def environment(*folders: Path) -> jinja2.Environment:
    """Templates from these folders (this package's own come last); everything is escaped unless it is Markup."""
    loader = jinja2.FileSystemLoader([*folders, HERE])
    return jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def source(env: jinja2.Environment, names: Iterable[str]) -> str:
    """The text of files that are inlined as they are."""
    assert env.loader is not None
    return "\n".join(env.loader.get_source(env, name)[0] for name in names)


def embed(value: Any) -> Markup:
    """JSON that may stand inside <script type="application/json">: no '<', '>' or '&' is left in it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UserError(f"the page's data cannot be written as JSON ({error}); expected plain finite values") from error
    return Markup(text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}))


def document(template: str, *, folders: tuple[Path, ...] = (), css: list[str], js: list[str], **context: Any) -> str:
    """Render a page with its styles and scripts inlined."""
    env = environment(*folders)
    script = '"use strict";\n(() => {\n' + source(env, js) + "\n})();"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = env.get_template(template).render(
        css=Markup(source(env, css)), js=Markup(script), script_hash=f"sha256-{digest}", embed=embed, **context
    )
    # A lone surrogate (half a character, from broken JSON) cannot be written as UTF-8; it becomes "?".
    return html.encode("utf-8", "replace").decode("utf-8")
