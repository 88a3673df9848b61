"""The addresses.

    GET  /            a page: write a text, choose a model, look
    POST /predict     {"model": ..., "text": ...} or {"texts": [...]}
    POST /look        {"model": ..., "text": ..., "label": ..., "what_if": [...], "beside": ...}; GET does the same
    GET  /health      whether the models are there, and how much waits
    GET  /openapi.json

Too much is told so: 413 a request that is too large, 503 a full queue, 504 one that took too long.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from regard.errors import UserError, did_you_mean
from regard.pages.assets import render_document
from regard.serve.auth import Guard
from regard.serve.limits import Limits
from regard.serve.worker_pool import Busy, Crew, Died, Late

TEMPLATES = Path(__file__).parent / "templates"


class Predict(BaseModel):
    """One text, or several."""

    model: str | None = Field(None, description="Which model; the first one where none is named.")
    text: str | None = None
    texts: list[str] | None = None


class LookAt(BaseModel):
    """What `regard look` asks."""

    text: str
    model: str | None = None
    label: str | None = Field(None, description="The class or word to ask about, if not the most probable one.")
    what_if: list[str] = Field(
        default_factory=list,
        description="hide:WORD, ablate:SITE[:HEADS], uniform:SITE, swap:MODEL:SITE[:HEADS]",
    )
    beside: str | None = Field(None, description="Another model to stand beside it.")
    faithful: bool = True
    evidence: list[str] = Field(default_factory=list, description="Words known to decide: how much of them was found.")
    form: Literal["html", "json"] = "html"


def make_app(
    crews: Mapping[str, Crew], *, limits: Limits, token: str | None = None, hosts: set[str] | None = None
) -> FastAPI:
    """The application; with a token all but /health ask for it. `hosts` are the names it answers to (all: None)."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        for crew in crews.values():
            await crew.stop()

    app = FastAPI(title="regard", description=__doc__ or "", docs_url=None, redoc_url=None, lifespan=life)
    app.add_middleware(Guard, token=token, hosts=hosts, body=limits.body)

    def crew_of(name: str | None) -> Crew:
        if name is None:
            return next(iter(crews.values()))
        if name not in crews:
            raise UserError(f"no model {name!r} is served; {did_you_mean(name, crews)}")
        return crews[name]

    def fitting(text: str) -> str:
        if not text.strip():
            raise UserError("the text is empty")
        if len(text) > limits.characters:
            raise TooLarge(f"the text has {len(text):,} characters, and at most {limits.characters:,} are read")
        return text

    async def looked(asked: LookAt) -> dict[str, Any]:
        crew, text = crew_of(asked.model), fitting(asked.text)
        specs = [_served(spec, crews) for spec in asked.what_if[:32]]
        how: dict[str, Any] = {"text": text, "label": asked.label, "faithful": asked.faithful, "form": asked.form}
        other = None
        if asked.beside:
            given = {"text": text, "label": None, "faithful": asked.faithful, "form": "data"}
            other = (await crew_of(asked.beside).ask("look", given))["data"]
        return await crew.ask("look", {**how, "what_if": specs, "evidence": asked.evidence[:32], "other": other})

    @app.post("/predict")
    async def predict(asked: Predict) -> dict[str, Any]:
        """The class of a text, its translation, its next or missing word: what the model is for."""
        texts = asked.texts if asked.texts is not None else [asked.text] if asked.text is not None else []
        if not texts or (asked.texts is not None and asked.text is not None):
            raise UserError("give `text`, or `texts` with at least one")
        if len(texts) > limits.texts:
            raise TooLarge(f"{len(texts)} texts were given, and at most {limits.texts} are read at once")
        crew = crew_of(asked.model)
        found = await crew.ask("predict", [fitting(text) for text in texts], size=len(texts))
        rows = [{"text": text, **one} for text, one in zip(texts, found, strict=True)]
        if asked.text is not None:
            if "error" in rows[0]:
                raise UserError(rows[0]["error"])
            return {"model": crew.name, **rows[0]}
        return {"model": crew.name, "answers": rows}

    @app.post("/look", response_model=None)
    async def look(asked: LookAt) -> Response:
        """The page, or all that was seen as JSON."""
        found = await looked(asked)
        return HTMLResponse(found["html"]) if asked.form == "html" else JSONResponse(found["data"])

    @app.get("/look", response_model=None)
    async def look_page(
        request: Request,
        text: str,
        model: str | None = None,
        label: str | None = None,
        what_if: Annotated[list[str] | None, Query()] = None,
        beside: str | None = None,
        faithful: bool = True,
        evidence: Annotated[list[str] | None, Query()] = None,
    ) -> Response:
        """The page, by its address alone."""
        specs = [part for spec in what_if or [] for part in spec.split()]
        known = [words for words in evidence or [] if words.strip()]
        more: dict[str, Any] = {"what_if": specs, "faithful": faithful, "evidence": known}
        asked = LookAt(text=text, model=model, label=label or None, beside=beside or None, **more)
        try:
            return HTMLResponse((await looked(asked))["html"])
        except Exception as problem:
            status, said = told(problem)
            return _page("problem.html.j2", status, said=said)

    @app.get("/health")
    async def health(request: Request) -> JSONResponse:
        """200 while every model is there."""
        ready = all(crew.ready for crew in crews.values())
        more = {"models": {name: crew.state() for name, crew in crews.items()}} if request.state.trusted else {}
        return JSONResponse({"status": "ok" if ready else "starting", **more}, 200 if ready else 503)

    @app.get("/", response_model=None)
    async def index(
        request: Request,
        text: str = "",
        model: str = "",
        label: str = "",
        what_if: str = "",
        beside: str = "",
        evidence: str = "",
    ) -> Response:
        query = request.url.query if text.strip() else ""
        given = {"text": text, "model": model, "label": label, "what_if": what_if, "beside": beside}
        given["evidence"] = evidence
        page = _page("index.html.j2", 200, models=list(crews), given=given, query=query)
        if token is not None:  # for the frame inside, and the next visit
            page.set_cookie("regard", token, httponly=True, samesite="strict")
        return page

    @app.exception_handler(RequestValidationError)
    async def unreadable(_: Request, problem: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in problem.errors()[:3])
        return JSONResponse({"error": said}, 422)

    for kind in (UserError, Busy, Late, Died, RuntimeError):

        @app.exception_handler(kind)
        async def answered(_: Request, problem: Exception) -> JSONResponse:
            status, said = told(problem)
            return JSONResponse({"error": said}, status, headers={"Retry-After": "1"} if status == 503 else None)

    return app


class TooLarge(UserError):
    """More than the limits allow."""


def told(problem: Exception) -> tuple[int, str]:
    """The status and the words for what went wrong."""
    if isinstance(problem, Busy):
        return 503, str(problem)
    if isinstance(problem, Late):
        return 504, str(problem)
    if isinstance(problem, TooLarge):
        return 413, str(problem)
    if isinstance(problem, UserError):
        return 422, str(problem)
    return 500, str(problem) or type(problem).__name__


def _served(spec: str, crews: Mapping[str, Crew]) -> str:
    """Heads are swapped with a model that is served, by its name: a client opens no folders."""
    if not spec.startswith("swap:"):
        return spec
    _, _, rest = spec.partition(":")
    name, _, where = rest.partition(":")
    if name not in crews:
        raise UserError(f"heads are swapped with a model that is served, and {name!r} is none; {did_you_mean(name, crews)}")
    return f"swap:{crews[name].folder}:{where}"


def _page(template: str, status: int, **given: Any) -> HTMLResponse:
    return HTMLResponse(
        render_document(template, folders=(TEMPLATES,), css=["theme.css", "serve.css"], js=[], **given), status
    )


def new_token() -> str:
    return secrets.token_urlsafe(18)
