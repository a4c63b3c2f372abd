"""What environments and servers are tested with: conformance suites and their manifests."""
