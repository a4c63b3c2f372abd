"""What is shipped to test environments and servers with: conformance suites, a fake clock, an in-process client."""
