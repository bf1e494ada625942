"""Things to test engines and plugins with: an exactly known model, toy drafters, conformance suites."""
