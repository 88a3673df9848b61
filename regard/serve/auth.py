"""Checks before any endpoint: the host name, the token, the size of the request."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs

PUBLIC_PATHS = ("/health",)


class AuthMiddleware:
    """ASGI middleware. The check of the host name prevents DNS rebinding, by which a page elsewhere could reach a
    server on this machine.
    """

    def __init__(self, app: Any, *, token: str | None, hosts: set[str] | None, max_body: int):
        self.app, self.token, self.hosts, self.max_body = app, token, hosts, max_body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        trusted = self._is_trusted(scope, headers)
        scope.setdefault("state", {})["trusted"] = trusted
        if self.hosts is not None and _host_name(headers.get("host", "")) not in self.hosts:
            await _refuse(send, 421, "this server does not answer to this host name")
            return
        if not trusted and scope["path"] not in PUBLIC_PATHS:
            await _refuse(
                send, 401, "a token is required: `Authorization: Bearer TOKEN`, or ?token=TOKEN in the address"
            )
            return
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > self.max_body:
            await _refuse(send, 413, f"a request has at most {self.max_body:,} bytes")
            return
        received = 0

        async def limited_receive() -> Any:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_body:  # a request without a content length
                return {"type": "http.disconnect"}
            return message

        await self.app(scope, limited_receive, send)

    def _is_trusted(self, scope: Any, headers: dict[str, str]) -> bool:
        if self.token is None:
            return True
        scheme, _, value = headers.get("authorization", "").partition(" ")
        tokens = [value] if scheme.lower() == "bearer" else []
        tokens += parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if (cookie := SimpleCookie(headers.get("cookie", "")).get("regard")) is not None:
            tokens.append(cookie.value)
        return any(compare_digest(candidate.encode(), self.token.encode()) for candidate in tokens)


def _host_name(host: str) -> str:
    """The host without the port."""
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


async def _refuse(send: Any, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
