"""Connections that are closed if what they begin to ask does not come in time, or if nobody reads the answer.

uvicorn waits for ever until the head of a request, its first line and its headers, is whole; whoever opens many
connections and sends a letter now and then could keep all of them (slowloris). The body is the guard's to wait for. It
also waits for ever until somebody takes what it sends; whoever asks and does not read, or reads a byte now and then,
could keep a request under way, and the connection after it.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LEAST_BYTES = 16_384  # that a client must take each time, unless less is left


def patient_for(head_seconds: float, send_seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with a limit on the time from a connection's start, or a head's first byte, to its last; and
    one on the time in which a client must take 16 kB of what waits to be sent.
    """

    class Patient(H11Protocol):
        _limit: asyncio.TimerHandle | None = None
        _watch: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            self._limit = self.loop.call_later(head_seconds, transport.close)
            transport.set_write_buffer_limits(high=0)  # so that whatever waits to be sent is told, and watched

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._forget()
            elif self._limit is None:  # the head of a further request has begun
                self._limit = self.loop.call_later(head_seconds, self.transport.close)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._look_later()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unwatch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            self._unwatch()
            super().connection_lost(exc)

        def _look_later(self) -> None:
            waiting = self.transport.get_write_buffer_size()
            self._unwatch()
            self._watch = self.loop.call_later(send_seconds, self._look, waiting)

        def _look(self, before: int) -> None:
            if self.transport.get_write_buffer_size() > before - LEAST_BYTES:
                self.transport.abort()  # to close it would wait until all is sent
            else:
                self._look_later()

        def _forget(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

        def _unwatch(self) -> None:
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    return Patient
