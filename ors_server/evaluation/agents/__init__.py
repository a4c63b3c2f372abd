"""Who plays: scripted baselines, language models, MCP hosts, and any Python callable."""
