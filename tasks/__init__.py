"""The bundled environments, imported as `ors_server_tasks`: README.md in this folder explains the name."""
