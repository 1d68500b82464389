"""Carries connections from the machine's loopback into a node's network namespace.

The listening socket is made outside and inherited; a socket belongs to the namespace that it was made in, so accepting
on it and dialling from here joins the two without an interface between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

_CHUNK = 64 * 1024


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()


def start(listener: socket.socket, port: int, host: str = "127.0.0.1") -> None:
    """Serve until the process ends, from a thread of its own."""

    async def serve(outer: asyncio.StreamReader, outer_writer: asyncio.StreamWriter) -> None:
        try:
            inner, inner_writer = await asyncio.open_connection(host, port)
        except OSError:
            outer_writer.close()
            return
        await asyncio.gather(_pump(outer, inner_writer), _pump(inner, outer_writer))

    async def run() -> None:
        server = await asyncio.start_server(serve, sock=listener)
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), name="relay", daemon=True).start()
