"""Data and pure rules of every part: errors, episodes, policy, wire format, settings, logs, clocks."""
