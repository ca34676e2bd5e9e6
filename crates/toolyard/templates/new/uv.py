# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""One JSON line in, one JSON line out. List what you import under dependencies above; uv installs it once."""
import json
import sys

arguments = json.loads(sys.stdin.readline())["arguments"]
print(json.dumps({"greeting": f"Hello, {arguments['name']}!"}))
