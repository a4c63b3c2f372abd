-- Posts one body to one path, cycling over the session ids in a file; prints what came of it as JSON.
-- Arguments: PATH SESSIONS_FILE BODY
local requests, position = {}, 0

function init(arguments)
  local path, sessions, body = arguments[1], arguments[2], arguments[3]
  for id in io.lines(sessions) do
    local headers = { ["Content-Type"] = "application/json", ["X-Session-ID"] = id }
    requests[#requests + 1] = wrk.format("POST", path, headers, body)
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local line = '{"requests": %d, "seconds": %.6f, "failed": %d, "p50_ms": %.3f, "p99_ms": %.3f}\n'
  io.write(string.format(line, summary.requests, summary.duration / 1e6, failed,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
