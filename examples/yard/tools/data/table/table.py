# /// script
# requires-python = ">=3.9"
# dependencies = ["tabulate==0.9.0"]
# ///
"""Rows in, a table out."""
import json
import sys

from tabulate import tabulate

arguments = json.loads(sys.stdin.readline())["arguments"]
table = tabulate(arguments["rows"], headers=arguments.get("headers", ()), tablefmt=arguments.get("style", "github"))
print(json.dumps(table, ensure_ascii=False))
