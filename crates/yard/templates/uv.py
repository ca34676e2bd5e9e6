# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Reads one JSON line, writes one JSON line. List imported packages under dependencies; uv installs them once."""
import json
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
print(json.dumps({"greeting": f"Hello, {arguments['name']}!"}))
