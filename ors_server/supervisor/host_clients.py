"""HTTP clients of a server's hosts: one for each host, used again until the host's address changes."""

import httpx2

from ors_server.model.host_slot import UNIX


class HostClients:
    """Reuses the client of each host: creating one costs as much as a hundred requests."""

    def __init__(self) -> None:
        self._clients: dict[int, tuple[str, httpx2.AsyncClient]] = {}
        """Address and client of each host, by its number."""

    async def client_of(self, number: int, address: str) -> httpx2.AsyncClient:
        """Return the client of a host, and close the one of its former address.

        Args:
            number: The host's number.
            address: Where it is reached: `unix:PATH` or HOST:PORT.
        """
        former = self._clients.get(number)
        if former is not None and former[0] == address:
            return former[1]
        is_unix = address.startswith(UNIX)
        transport = httpx2.AsyncHTTPTransport(uds=address.removeprefix(UNIX)) if is_unix else None
        base_url = "http://127.0.0.1" if is_unix else f"http://{address}"
        client = httpx2.AsyncClient(transport=transport, base_url=base_url)
        self._clients[number] = address, client
        if former is not None:
            await former[1].aclose()
        return client

    async def aclose(self) -> None:
        """Close all connections; the next request opens new ones."""
        clients = [client for _, client in self._clients.values()]
        self._clients.clear()
        for client in clients:
            await client.aclose()
