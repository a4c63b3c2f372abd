"""Who uses the event loop and how long: clocks of calls, watches, admission, worker threads."""
