"""Connections that are closed if what they begin to ask does not come in time.

uvicorn waits for ever until the head of a request, its first line and its headers, is whole; whoever opens many
connections and sends a letter now and then could keep all of them (slowloris). The body is the guard's to wait for.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def patient_for(seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with a limit on the time from a connection's start, or a head's first byte, to its last."""

    class Patient(H11Protocol):
        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._limit = self.loop.call_later(seconds, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._forget()
            elif self._limit is None:  # the head of a further request has begun
                self._limit = self.loop.call_later(seconds, self.transport.close)

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _forget(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

    return Patient
