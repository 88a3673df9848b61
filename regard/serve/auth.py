"""Before any address: is this server called by a name of its own, does the client know the token, is the request
small enough."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs

OPEN = ("/health",)


class Guard:
    """A layer around the application. The names keep a page elsewhere from reaching a server on this machine under a
    name of its own (DNS rebinding)."""

    def __init__(self, app: Any, *, token: str | None, hosts: set[str] | None, body: int):
        self.app, self.token, self.hosts, self.body = app, token, hosts, body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        trusted = self._trusted(scope, headers)
        scope.setdefault("state", {})["trusted"] = trusted
        if self.hosts is not None and _name(headers.get("host", "")) not in self.hosts:
            await _refuse(send, 421, "this server goes by another name")
            return
        if not trusted and scope["path"] not in OPEN:
            await _refuse(send, 401, "a token is wanted: `Authorization: Bearer TOKEN`, or ?token=TOKEN in the address")
            return
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > self.body:
            await _refuse(send, 413, f"a request has at most {self.body:,} bytes")
            return
        read = 0

        async def counted() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.body:  # one that did not say how long it is
                return {"type": "http.disconnect"}
            return message

        await self.app(scope, counted, send)

    def _trusted(self, scope: Any, headers: dict[str, str]) -> bool:
        if self.token is None:
            return True
        kind, _, said = headers.get("authorization", "").partition(" ")
        given = [said] if kind.lower() == "bearer" else []
        given += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if (cookie := SimpleCookie(headers.get("cookie", "")).get("regard")) is not None:
            given.append(cookie.value)
        return any(compare_digest(one.encode(), self.token.encode()) for one in given)


def _name(host: str) -> str:
    """Without the port."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


async def _refuse(send: Any, status: int, said: str) -> None:
    body = json.dumps({"error": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
