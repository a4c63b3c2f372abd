"""The bundled environments, one folder each; imported as `ors_server_tasks`, a link to this folder."""
