"""The HTTP endpoints.

    GET  /            a page: write a text, choose a model, look
    POST /predict     {"model": ..., "text": ...} or {"texts": [...]}
    POST /look        {"model": ..., "text": ..., "label": ..., "what_if": [...], "beside": ...}; GET does the same
    GET  /health      whether the models are ready, and how many requests wait
    GET  /openapi.json

Errors: 413 the request is too large, 503 the queue is full, 504 the request took too long.
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
from regard.serve.auth import AuthMiddleware
from regard.serve.limits import Limits
from regard.serve.worker_pool import ModelWorker, QueueFull, RequestTimeout, WorkerDied

TEMPLATES = Path(__file__).parent / "templates"


class PredictRequest(BaseModel):
    """One text, or several."""

    model: str | None = Field(None, description="Name of the model; default: the first one.")
    text: str | None = None
    texts: list[str] | None = None


class LookRequest(BaseModel):
    """The options of `regard look`."""

    text: str
    model: str | None = None
    label: str | None = Field(None, description="The class or word to explain; default: the most probable one.")
    what_if: list[str] = Field(
        default_factory=list,
        description="hide:WORD, ablate:LAYER[:HEADS], uniform:LAYER[:HEADS], swap:MODEL:LAYER[:HEADS]",
    )
    beside: str | None = Field(None, description="Another model to compare with.")
    faithful: bool = True
    evidence: list[str] = Field(
        default_factory=list, description="Words that are known to decide: how much of the attention they get."
    )
    form: Literal["html", "json"] = "html"


def build_app(
    workers: Mapping[str, ModelWorker], *, limits: Limits, token: str | None = None, hosts: set[str] | None = None
) -> FastAPI:
    """The application.

    Args:
        workers: The models by name.
        limits: The limits of requests.
        token: If given, all endpoints but /health need it.
        hosts: The host names that it answers to; None: all.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        for worker in workers.values():
            await worker.stop()

    app = FastAPI(title="regard", description=__doc__ or "", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(AuthMiddleware, token=token, hosts=hosts, max_body=limits.max_body)

    def find_worker(name: str | None) -> ModelWorker:
        if name is None:
            return next(iter(workers.values()))
        if name not in workers:
            raise UserError(f"no model {name!r} is served; {did_you_mean(name, workers)}")
        return workers[name]

    def check_text(text: str) -> str:
        if not text.strip():
            raise UserError("the text is empty")
        if len(text) > limits.characters:
            raise TooLarge(f"the text has {len(text):,} characters, and at most {limits.characters:,} are allowed")
        return text

    async def look_at(body: LookRequest) -> dict[str, Any]:
        worker, text = find_worker(body.model), check_text(body.text)
        specs = [_resolve_swap(spec, workers) for spec in body.what_if[:32]]
        options: dict[str, Any] = {"text": text, "label": body.label, "faithful": body.faithful, "form": body.form}
        other = None
        if body.beside:
            other_options = {"text": text, "label": None, "faithful": body.faithful, "form": "data"}
            other = (await find_worker(body.beside).ask("look", other_options))["data"]
        return await worker.ask("look", {**options, "what_if": specs, "evidence": body.evidence[:32], "other": other})

    @app.post("/predict")
    async def predict(body: PredictRequest) -> dict[str, Any]:
        """Predict the class of a text, its translation, its next word or its missing words."""
        texts = body.texts if body.texts is not None else [body.text] if body.text is not None else []
        if not texts or (body.texts is not None and body.text is not None):
            raise UserError("give either `text` or a non-empty list `texts`")
        if len(texts) > limits.texts:
            raise TooLarge(f"got {len(texts)} texts, and at most {limits.texts} are allowed in one request")
        worker = find_worker(body.model)
        answers = await worker.ask("predict", [check_text(text) for text in texts], size=len(texts))
        rows = [{"text": text, **answer} for text, answer in zip(texts, answers, strict=True)]
        if body.text is not None:
            if "error" in rows[0]:
                raise UserError(rows[0]["error"])
            return {"model": worker.name, **rows[0]}
        return {"model": worker.name, "answers": rows}

    @app.post("/look", response_model=None)
    async def post_look(body: LookRequest) -> Response:
        """The page, or its data as JSON."""
        look = await look_at(body)
        return HTMLResponse(look["html"]) if body.form == "html" else JSONResponse(look["data"])

    @app.get("/look", response_model=None)
    async def get_look(
        request: Request,
        text: str,
        model: str | None = None,
        label: str | None = None,
        what_if: Annotated[list[str] | None, Query()] = None,
        beside: str | None = None,
        faithful: bool = True,
        evidence: Annotated[list[str] | None, Query()] = None,
    ) -> Response:
        """The page, with all options in the URL."""
        specs = [part for spec in what_if or [] for part in spec.split()]
        evidence_words = [words for words in evidence or [] if words.strip()]
        more: dict[str, Any] = {"what_if": specs, "faithful": faithful, "evidence": evidence_words}
        body = LookRequest(text=text, model=model, label=label or None, beside=beside or None, **more)
        try:
            return HTMLResponse((await look_at(body))["html"])
        except Exception as problem:
            status, message = error_status(problem)
            return _render_page("problem.html.j2", status, said=message)

    @app.get("/health")
    async def health(request: Request) -> JSONResponse:
        """200 if every model is ready."""
        ready = all(worker.ready for worker in workers.values())
        more = {"models": {name: worker.state() for name, worker in workers.items()}} if request.state.trusted else {}
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
        form = {"text": text, "model": model, "label": label, "what_if": what_if, "beside": beside}
        form["evidence"] = evidence
        page = _render_page("index.html.j2", 200, models=list(workers), given=form, query=query)
        if token is not None:  # for the frame inside and for the next visit
            page.set_cookie("regard", token, httponly=True, samesite="strict")
        return page

    @app.exception_handler(RequestValidationError)
    async def invalid_request(_: Request, problem: RequestValidationError) -> JSONResponse:
        message = "; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in problem.errors()[:3])
        return JSONResponse({"error": message}, 422)

    for error_type in (UserError, QueueFull, RequestTimeout, WorkerDied, RuntimeError):

        @app.exception_handler(error_type)
        async def error_response(_: Request, problem: Exception) -> JSONResponse:
            status, message = error_status(problem)
            return JSONResponse({"error": message}, status, headers={"Retry-After": "1"} if status == 503 else None)

    return app


class TooLarge(UserError):
    """The request is larger than the limits allow."""


def error_status(problem: Exception) -> tuple[int, str]:
    """The HTTP status and the message for an error."""
    if isinstance(problem, QueueFull):
        return 503, str(problem)
    if isinstance(problem, RequestTimeout):
        return 504, str(problem)
    if isinstance(problem, TooLarge):
        return 413, str(problem)
    if isinstance(problem, UserError):
        return 422, str(problem)
    return 500, str(problem) or type(problem).__name__


def _resolve_swap(spec: str, workers: Mapping[str, ModelWorker]) -> str:
    """Heads are swapped with a served model, by its name: a client cannot open folders."""
    if not spec.startswith("swap:"):
        return spec
    _, _, rest = spec.partition(":")
    name, _, where = rest.partition(":")
    if name not in workers:
        raise UserError(
            f"heads can be swapped with a served model only, and {name!r} is not served; {did_you_mean(name, workers)}"
        )
    return f"swap:{workers[name].folder}:{where}"


def _render_page(template: str, status: int, **context: Any) -> HTMLResponse:
    return HTMLResponse(
        render_document(template, folders=(TEMPLATES,), css=["theme.css", "serve.css"], js=[], **context), status
    )


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(18)
