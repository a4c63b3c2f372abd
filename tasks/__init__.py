"""The bundled environments, one folder each; installed as `ors_server_tasks`."""
