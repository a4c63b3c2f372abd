"""HTTP for every interface: the bounded server, messages, faults and event streams."""
