"""The addresses: what they answer, what they refuse, who may ask."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason='FastAPI is not installed: pip install "regard[serve]"')
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from regard.errors import UserError  # noqa: E402
from regard.serve.app import build_app  # noqa: E402
from regard.serve.limits import Limits  # noqa: E402
from regard.serve.server import is_loopback, name_models  # noqa: E402
from regard.serve.worker_pool import ModelWorker  # noqa: E402

PRETEND = (sys.executable, str(Path(__file__).parent / "fake_worker.py"))


def with_client(do: Callable[..., Awaitable[None]], token: str | None = None, hosts=None, **limits) -> None:
    async def main() -> None:
        made = Limits(**limits)
        crews = {name: ModelWorker(name, Path(name), made, command=PRETEND) for name in ("one", "two")}
        for crew in crews.values():
            await crew.start()
        app = build_app(crews, limits=made, token=token, hosts=hosts)
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                await do(client)
        finally:
            for crew in crews.values():
                await crew.stop()

    asyncio.run(main())


def test_predict_look_health_and_openapi():
    async def do(client) -> None:
        said = (await client.post("/predict", json={"text": "hello"})).json()
        assert said["model"] == "one"
        assert said["answer"]["said"] == "hello"
        said = (await client.post("/predict", json={"model": "two", "texts": ["a", "no"]})).json()
        assert [row["text"] for row in said["answers"]] == ["a", "no"]
        assert said["answers"][1]["error"] == "no"
        page = await client.post("/look", json={"text": "a word", "model": "two", "what_if": ["hide:word"]})
        assert page.headers["content-type"].startswith("text/html")
        assert "two" in page.text
        assert "hide:word" in page.text
        assert (await client.post("/look", json={"text": "a word", "form": "json"})).json()["text"] == "a word"
        assert "one" in (await client.get("/look", params={"text": "a"})).text
        health = (await client.get("/health")).json()
        assert health["status"] == "ok"
        assert set(health["models"]) == {"one", "two"}
        described = (await client.get("/openapi.json")).json()
        assert {"/predict", "/look", "/health"} <= set(described["paths"])
        page = (await client.get("/", params={"text": "<b>me</b>", "model": "two"})).text
        assert "&lt;b&gt;me" in page
        assert "<b>me" not in page
        assert "<iframe" in page

    with_client(do)


def test_invalid_requests():
    async def do(client) -> None:
        for given, status, words in (
            ({}, 422, "give either `text`"),
            ({"text": " "}, 422, "empty"),
            ({"text": "x", "model": "onne"}, 422, "did you mean 'one'"),
            ({"text": 3}, 422, "string"),
            ({"text": "x" * 51}, 413, "51 characters"),
            ({"texts": ["x"] * 65}, 413, "65 texts"),
            ({"text": "bug"}, 500, "ZeroDivision"),
        ):
            found = await client.post("/predict", json=given)
            assert found.status_code == status, found.text
            assert words in found.json()["error"]
        found = await client.post("/look", json={"text": "x", "what_if": ["swap:/etc:layers.0"]})
        assert found.status_code == 422
        assert "a served model only" in found.json()["error"]
        found = await client.get("/look", params={"text": "no"})
        assert found.status_code == 422
        assert "cannot be looked at" in found.text
        assert (await client.post("/predict", content=b"x" * 100_000)).status_code == 413

    with_client(do, characters=50)


def test_full_queue_and_timeout_have_their_own_status():
    async def do(client) -> None:
        slow = asyncio.create_task(client.post("/predict", json={"text": "sleep 0.4"}))
        await asyncio.sleep(0.1)
        found = await asyncio.gather(*(client.post("/predict", json={"text": f"t{i}"}) for i in range(5)))
        assert sorted(one.status_code for one in found) == [200, 200, 503, 503, 503]
        busy = next(one for one in found if one.status_code == 503)
        assert "busy" in busy.json()["error"]
        assert busy.headers["retry-after"] == "1"
        assert (await slow).status_code == 200
        assert (await client.post("/predict", json={"text": "sleep 9"})).status_code == 504

    with_client(do, queue=2, timeout=3.0)


def test_a_token_is_required():
    async def do(client) -> None:
        for address in ("/", "/openapi.json", "/look?text=x"):
            assert (await client.get(address)).status_code == 401
        assert (await client.post("/predict", json={"text": "x"})).status_code == 401
        assert (await client.get("/health")).json() == {"status": "ok"}
        wrong = {"Authorization": "Bearer wrong"}
        assert (await client.get("/", headers=wrong)).status_code == 401
        right = {"Authorization": "Bearer s3cret"}
        assert (await client.post("/predict", json={"text": "x"}, headers=right)).status_code == 200
        page = await client.get("/?token=s3cret")
        assert page.status_code == 200
        assert "httponly" in page.headers["set-cookie"].lower()
        assert (await client.get("/look?text=x", headers={"Cookie": "regard=s3cret"})).status_code == 200

    with_client(do, token="s3cret")


def test_host_names():
    async def do(client) -> None:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/health", headers={"Host": "localhost:8000"})).status_code == 200
        assert (await client.get("/health", headers={"Host": "evil.example"})).status_code == 421

    with_client(do, hosts={"localhost"})


def test_model_names_and_loopback():
    assert list(name_models([Path("runs/a"), Path("other/a"), Path("b")])) == ["a", "other/a", "b"]
    with pytest.raises(UserError, match="given twice"):
        name_models([Path("runs/a"), Path("runs/a")])
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
