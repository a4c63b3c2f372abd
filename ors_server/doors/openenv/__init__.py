"""Episodes as OpenEnv serves them: over a WebSocket, over HTTP, and as JSON-RPC."""
